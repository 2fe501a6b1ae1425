# SPDX-License-Identifier: Apache-2.0
"""A motion by which an arm is identified, as a task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.sections import (
    ArmConfig,
    CollisionsConfig,
    ControlletConfig,
    ObjectConfig,
    ToolConfig,
)
from multipanda_py.exceptions import ConfigurationError, UnknownName, ValidationRefused
from multipanda_py.identification.validation.approach_paths import TO_START
from multipanda_py.state import Matrix, Vector

SIMULATED = "mujoco"
LAW = "law"
STEP = 10
"""Cycles between two targets."""
SOON = 2
"""The same of a task that computes a law, where the loop runs in another process."""


class PassTime(Protocol):
    """Let a cell run for some cycles, whatever its clock."""

    def __call__(self, cycles: int) -> None:
        """Return when they are over."""


class Task(ABC):
    """One experiment, the same on every cell with arms enough.

    A task takes the first arms of a cell as they are, with model, base, noise and perturbation,
    and puts its own posture, tool, law and things around simulated ones. Real arms keep their
    tools, and their things have to be there.

    Args:
        law: One of ``laws``.
        seconds: How long it lasts.

    Attributes:
        number: Of the paper.
        title: In a few words.
        laws: Names of the force laws, or other ways to do it, that it can be done with.
        arms: How many it takes.
        keeps_settling: Whether what comes before its first target is recorded, too.
        things: What is around the arms, by name, after :meth:`scene`: it is put around simulated
            ones, and has to be there around real ones.
        exerts: Largest force of each arm on its thing, by name, after :meth:`scene`, (3,) [N, in
            the world].
    """

    number: ClassVar[int]
    title: ClassVar[str]
    laws: ClassVar[tuple[str, ...]] = ("impedance",)
    arms: ClassVar[int] = 1
    keeps_settling: ClassVar[bool] = False

    def __init__(self, law: str = "", seconds: float = 10.0) -> None:
        self.law = law or self.laws[0]
        if self.law not in self.laws:
            raise ValidationRefused(
                f"task {self.number}: law: got {law!r}, allowed {', '.join(self.laws)}"
            )
        if not 0.5 <= seconds <= 600.0:
            raise ValidationRefused(f"task {self.number}: got {seconds:g} s, allowed 0.5 to 600 s")
        self.seconds = seconds
        self.things: Mapping[str, ObjectConfig] = {}
        self.exerts: Mapping[str, Vector] = {}

    @property
    def each_cycle(self) -> bool:
        """Whether it has to be asked for targets in every cycle, or as soon as that can be."""
        return False

    @abstractmethod
    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell to do it in.

        Raises:
            ValidationRefused: If the cell has too few arms, or they cannot reach.
        """

    def settle(self, cell: Cell, pace: PassTime) -> None:
        """Bring the arms to where it begins."""

    def leave(self, cell: Cell, pace: PassTime) -> None:
        """Put things back to where they were before real arms go elsewhere."""

    @abstractmethod
    def aim(self, cell: Cell, time: float) -> None:
        """Set the targets of an instant, from 0 to ``seconds``."""

    def asked_force(self, times: Vector) -> Vector | None:
        """Return the force that is asked for, (n,) [N]; None where none is.

        A task that asks for one has :meth:`contact_forces` and :meth:`felt_force`, too.
        """
        return None

    def contact_forces(self, cell: Cell) -> Matrix:
        """Return what things press on the tools with, of a simulated world, (arms, 3) [N]."""
        raise ValidationRefused(f"task {self.number}: asks for a force and does not measure one")

    def felt_force(self, contact_forces: Matrix) -> Vector:
        """Return the part of contact forces that is asked for, (arms,) [N]."""
        raise ValidationRefused(f"task {self.number}: asks for a force and does not measure one")

    def names(self, config: CellConfig) -> list[str]:
        """Return the names of the arms that take part."""
        if len(config.arms) < self.arms:
            raise ValidationRefused(
                f"task {self.number} ({self.title}): got a cell with {len(config.arms)} arm, "
                f"allowed {self.arms} or more"
            )
        return list(config.arms)[: self.arms]


def with_start(arm: ArmConfig, q: Vector, tool: Mapping[str, Any] | None) -> ArmConfig:
    """Return a simulated arm at a posture, with a rod instead of a hand if it has no tool."""
    update: dict[str, Any] = {"q_start": q.tolist()}
    if tool is not None and arm.backend == SIMULATED and arm.tool is None:
        update |= {"hand": False, "tool": ToolConfig.model_validate(tool)}
    return arm.model_copy(update=update)


def rod(length: float) -> dict[str, Any]:
    """Return a light rod with a round tip, as a tool."""
    return {
        "mass": 0.2,
        "com": [0.0, 0.0, length / 2],
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0],
        "position": [0.0, 0.0, length],
    }


def thing_like(config: CellConfig, name: str, values: Mapping[str, Any]) -> ObjectConfig:
    """Return a thing of a task, with the surface of the cell's thing of its name."""
    own = config.objects.get(name)
    keys = ("friction", "contact_time", "contact_damping")
    surface = {} if own is None else {key: getattr(own, key) for key in keys}
    return ObjectConfig.model_validate({**values, **surface})


def task_cell(
    config: CellConfig,
    arms: Mapping[str, ArmConfig],
    law: Mapping[str, Any],
    things: Mapping[str, ObjectConfig],
    touching: Sequence[str] = (),
) -> CellConfig:
    """Return a cell for a task, without clock if all its arms are simulated.

    Raises:
        ConfigurationError: If the cell's rules refuse it.
    """
    real = [name for name, arm in arms.items() if arm.backend != SIMULATED]
    settings = config.cell.model_copy(
        update={"placement": "process" if real else "inline", "viewer": False}
    )
    laws = {LAW: ControlletConfig.model_validate({**law, "arms": list(arms)})}
    if real:
        laws[TO_START] = ControlletConfig.model_validate({"type": "joint_trajectory"})
    simulated = len(real) < len(arms)  # nobody tells real arms where things are
    made = config.model_copy(
        update={
            "cell": settings,
            "arms": dict(arms),
            "objects": dict(things) if simulated else {},
            "collisions": CollisionsConfig(touching=list(touching) if simulated else []),
            "controllets": laws,
            "active": [] if real else [LAW],
        }
    )
    faults: Faults = []
    check_cell(made, faults)
    if faults:
        raise ConfigurationError(*faults)
    return made


AFTERWARDS = 0.2
"""For an arm to come to rest after a motion [s]."""


class MotionTask(Task):
    """Go through a motion by ``joint_trajectory``, as :meth:`.Cell.follow` takes it.

    Args:
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n).
    """

    number, title = 0, "a motion that shows inertia and friction"
    laws: ClassVar[tuple[str, ...]] = ("joint_trajectory",)

    def __init__(self, arm: str, points: Matrix) -> None:
        super().__init__(seconds=float(points[-1, 0]) + AFTERWARDS)
        self._arm, self._points = arm, points

    def names(self, config: CellConfig) -> list[str]:
        """Return the arm that moves."""
        if self._arm not in config.arms:
            raise UnknownName("arm", self._arm, tuple(config.arms))
        return [self._arm]

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the arm where the motion begins."""
        (name,) = self.names(config)
        begin = self._points[0, 1 : 1 + config.arms[name].robot.n_joints]
        arm = with_start(config.arms[name], np.array(begin), None)
        return task_cell(config, {name: arm}, {"type": "joint_trajectory"}, {})

    def settle(self, cell: Cell, pace: PassTime) -> None:
        """Let the arm come to rest."""
        pace(100)

    def aim(self, cell: Cell, time: float) -> None:
        """Hand the whole motion over at its begin."""
        if time == 0.0:
            cell.follow(self._arm, self._points)
