# SPDX-License-Identifier: Apache-2.0
"""The way from a commanded torque to a simulated joint, and from its motion back to the laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from multipanda_py.simulation.world import load_fields, save_fields
from multipanda_py.state import Vector


class Measured(Protocol):
    """What the sensors of an arm show, (n,) each; :class:`.ArmState` is one.

    Attributes:
        n_joints: n.
        q: Positions [rad].
        dq: Velocities [rad/s].
        tau_J: Torques, gravity included [Nm].
        tau_ext: Estimated external torques [Nm].
    """

    n_joints: int
    q: Vector
    dq: Vector
    tau_J: Vector
    tau_ext: Vector


class Stage:
    """Something between the command and the joint: a lag, the robot's own control, a gear.

    A stage overrides what it has to do with; what it leaves alone costs nothing.

    Attributes:
        CHANGING: Names of the attributes that change while it runs: what a saved state of the
            simulation holds of it.

    Thread: control.
    """

    CHANGING: ClassVar[Sequence[str]] = ()

    def execute(self, tau: Vector) -> None:
        """Change torques (n,) [Nm] on their way to the joints, in place."""

    def measure(self, state: Measured) -> None:
        """Change what was measured on its way to the laws, in place."""

    def reseed(self, seed: int) -> None:
        """Draw what is random about it anew; equal seeds give equal runs."""


class Drive:
    """All stages of one arm, in the order that a torque passes them.

    What is measured passes them the other way round: the stage nearest to the joint comes
    first, the one that the loop talks to last.

    Everything that changes a torque or a measurement is a stage: the robot's own protection, lag,
    noise and quantisation, gears, springs. Another one is plugged in here and nowhere else.

    Args:
        stages: From the command to the joint.

    Attributes:
        stages: As given.
        measuring: Functions of the stages that change measured states, the last stage first.
        is_random: Whether a seed changes anything about it.
        executing: Functions of the stages that change torques, the first stage first.

    Thread: control.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = tuple(stages)
        self.is_random = any(type(stage).reseed is not Stage.reseed for stage in stages)
        self.executing: list[Callable[[Vector], None]] = [
            stage.execute for stage in stages if type(stage).execute is not Stage.execute
        ]
        self.measuring: list[Callable[[Measured], None]] = [
            stage.measure for stage in reversed(stages) if type(stage).measure is not Stage.measure
        ]

    def execute(self, tau: Vector) -> None:
        """Turn commanded torques (n,) [Nm] into those of the motors, in place."""
        for step in self.executing:
            step(tau)

    def measure(self, state: Measured) -> None:
        """Turn the true state of the joints into what the laws see, in place."""
        for step in self.measuring:
            step(state)

    def save(self) -> list[dict[str, object]]:
        """Return what changes in the stages, to be loaded again."""
        return [save_fields(stage, stage.CHANGING) for stage in self.stages]

    def load(self, saved: Sequence[Mapping[str, object]]) -> None:
        """Put the stages back to where they were."""
        for stage, fields in zip(self.stages, saved):
            load_fields(stage, fields)

    def reseed(self, seed: int) -> None:
        """Draw what is random in the stages anew."""
        for stage in self.stages:
            stage.reseed(seed)
