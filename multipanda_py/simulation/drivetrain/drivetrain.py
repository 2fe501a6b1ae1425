# SPDX-License-Identifier: Apache-2.0
"""Chain of stages between the commanded torque and the joints of a simulated arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol

from multipanda_py.simulation.world import load_fields, save_fields
from multipanda_py.state import Vector


class Measured(Protocol):
    """Measured state of an arm, (n,) each; :class:`.ArmState` is one.

    Attributes:
        n_joints: Number of joints, n.
        q: Joint positions [rad].
        dq: Joint velocities [rad/s].
        tau_J: Joint torques, gravity included [Nm].
        tau_ext: Estimated external torques [Nm].
    """

    n_joints: int
    q: Vector
    dq: Vector
    tau_J: Vector
    tau_ext: Vector


class DrivetrainStage:
    """Base class of an effect between command and joint, such as a lag, a gear or a sensor.

    A stage overrides only the methods that it needs. :class:`Drivetrain` calls only these methods.

    Attributes:
        CHANGING: Names of attributes that change at run time; saved states contain them.

    Thread: control.
    """

    CHANGING: ClassVar[Sequence[str]] = ()

    def execute(self, tau: Vector) -> None:
        """Apply this effect to torques from the previous stage, (n,) [Nm], in place."""

    def measure(self, state: Measured) -> None:
        """Apply this effect to the measured state on its path to the controllets, in place."""

    def reseed(self, seed: int) -> None:
        """Restart the random number generators of this stage with a seed."""


class Drivetrain:
    """All stages of one arm, in the order in which a torque passes them.

    Measurements pass the stages in reverse order, from the joint to the loop.

    Args:
        stages: Stages from the command to the joint.

    Attributes:
        measuring: Methods ``measure`` of the stages, from the joint to the loop.
        is_random: True if a stage uses random numbers.
        executing: Methods ``execute`` of the stages, from the command to the joint.

    Thread: control.
    """

    def __init__(self, stages: Sequence[DrivetrainStage]) -> None:
        self.stages = tuple(stages)
        self.is_random = any(type(stage).reseed is not DrivetrainStage.reseed for stage in stages)
        self.executing: list[Callable[[Vector], None]] = [
            stage.execute for stage in stages if type(stage).execute is not DrivetrainStage.execute
        ]
        self.measuring: list[Callable[[Measured], None]] = [
            stage.measure
            for stage in reversed(stages)
            if type(stage).measure is not DrivetrainStage.measure
        ]

    def execute(self, tau: Vector) -> None:
        """Convert commanded torques, (n,) [Nm], to motor torques, in place."""
        for step in self.executing:
            step(tau)

    def measure(self, state: Measured) -> None:
        """Convert the true state of the joints to the measured state, in place."""
        for step in self.measuring:
            step(state)

    def save(self) -> list[dict[str, object]]:
        """Return copies of the changing attributes of all stages, for :meth:`load`."""
        return [save_fields(stage, stage.CHANGING) for stage in self.stages]

    def load(self, saved: Sequence[Mapping[str, object]]) -> None:
        """Restore attributes from :meth:`save`."""
        for stage, fields in zip(self.stages, saved):
            load_fields(stage, fields)

    def reseed(self, seed: int) -> None:
        """Restart the random number generators of all stages with a seed."""
        for stage in self.stages:
            stage.reseed(seed)
