# SPDX-License-Identifier: Apache-2.0
"""Base class of validation tasks, scene helpers, and the task that runs an excitation motion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.arm_section import ArmConfig, ToolConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.sections import CollisionsConfig, ControlletConfig, ObjectConfig
from multipanda_py.exceptions import ConfigurationError, UnknownName, ValidationRefused
from multipanda_py.identification.validation.approach_paths import TO_START
from multipanda_py.state import Matrix, Vector

SIMULATED_BACKEND = "mujoco"
CONTROLLET_NAME = "law"
TARGET_CYCLES = 10
"""Cycles between two targets."""
FAST_TARGET_CYCLES = 2
"""Cycles between two targets of a task with its own controller, if the loop is another process."""


class PassTime(Protocol):
    """Callable that advances a cell by a number of cycles, stepped or in real time."""

    def __call__(self, cycles: int) -> None:
        """Return after ``cycles`` cycles."""


class Task(ABC):
    """Experiment that runs identically on every cell with enough arms.

    A task uses the first arms of a cell with their model, base, noise and perturbation. Simulated
    arms get the start configuration, tool, controllet and objects of the task. Real arms keep
    their tools, and the objects have to be set up around them.

    Args:
        law: Controllet or variant, one of ``laws``.
        seconds: Duration [s].

    Attributes:
        number: Number of the task in the paper.
        title: Short title.
        laws: Names of the force controllets or other variants of the task.
        arms: Number of arms.
        keeps_settling: True to record the time before the first target as well.
        objects: Objects around the arms by name, available after :meth:`scene`. They are added to
            simulations and have to be present around real arms.
        forces_on_objects: Largest force of each arm on its object in the world frame, by name,
            (3,) [N]. Available after :meth:`scene`.
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
            raise ValidationRefused(
                f"task {self.number}: duration: got {seconds:g} s, allowed 0.5 to 600 s"
            )
        self.seconds = seconds
        self.objects: Mapping[str, ObjectConfig] = {}
        self.forces_on_objects: Mapping[str, Vector] = {}

    @property
    def needs_every_cycle(self) -> bool:
        """True if the task needs to set targets in every cycle, or as often as possible."""
        return False

    @abstractmethod
    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell of the task.

        Raises:
            ValidationRefused: If the cell has too few arms or they cannot reach the start.
        """

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Bring the arms to the initial state of the task.

        Args:
            cell: Running cell of the task.
            advance: Function that advances the cell by a number of cycles.
        """

    def restore_scene(self, cell: Cell, advance: PassTime) -> None:
        """Put objects down and move tools away from them, so that real arms can move on.

        Args:
            cell: Running cell of the task.
            advance: Function that advances the cell by a number of cycles.
        """

    @abstractmethod
    def set_targets(self, cell: Cell, time: float) -> None:
        """Set the targets of a time.

        Args:
            cell: Running cell of the task.
            time: Time since the start of the task, 0 to ``seconds`` [s].
        """

    def requested_force(self, times: Vector) -> Vector | None:
        """Return the requested force at the given times, (n,) [N], or None for tasks without one.

        Tasks with a force also implement :meth:`contact_forces` and :meth:`force_component`.
        """
        return None

    def contact_forces(self, cell: Cell) -> Matrix:
        """Return the simulated contact forces of objects on the tools, (arms, 3) [N]."""
        raise ValidationRefused(f"task {self.number}: requests a force but does not measure it")

    def force_component(self, contact_forces: Matrix) -> Vector:
        """Return the component of contact forces in the requested direction, (arms,) [N]."""
        raise ValidationRefused(f"task {self.number}: requests a force but does not measure it")

    def names(self, config: CellConfig) -> list[str]:
        """Return the names of the participating arms."""
        if len(config.arms) < self.arms:
            raise ValidationRefused(
                f"task {self.number} ({self.title}): got a cell with {len(config.arms)} arm, "
                f"allowed {self.arms} or more arms"
            )
        return list(config.arms)[: self.arms]


def with_start(arm: ArmConfig, q: Vector, tool: Mapping[str, Any] | None) -> ArmConfig:
    """Return an arm at a start configuration. A simulated arm without tool gets the given one.

    Args:
        arm: Description of the arm.
        q: Joint positions, (n,) [rad].
        tool: Section of the tool that replaces the gripper, or None.
    """
    update: dict[str, Any] = {"q_start": q.tolist()}
    if tool is not None and arm.backend == SIMULATED_BACKEND and arm.tool is None:
        update |= {"gripper": False, "tool": ToolConfig.model_validate(tool)}
    return arm.model_copy(update=update)


def rod(length: float) -> dict[str, Any]:
    """Return the tool section of a light rod with a round tip.

    Args:
        length: Length of the rod [m].
    """
    return {
        "mass": 0.2,
        "com": [0.0, 0.0, length / 2],
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0],
        "position": [0.0, 0.0, length],
    }


def object_like(config: CellConfig, name: str, values: Mapping[str, Any]) -> ObjectConfig:
    """Return an object of a task with the contact parameters of the cell's object of that name."""
    own = config.objects.get(name)
    keys = ("friction", "contact_time", "contact_damping")
    surface = {} if own is None else {key: getattr(own, key) for key in keys}
    return ObjectConfig.model_validate({**values, **surface})


def task_cell(
    config: CellConfig,
    arms: Mapping[str, ArmConfig],
    law: Mapping[str, Any],
    objects: Mapping[str, ObjectConfig],
    touching: Sequence[str] = (),
) -> CellConfig:
    """Return a cell for a task. It runs inline, without a clock, if all arms are simulated.

    Args:
        config: Cell to start from.
        arms: Sections of the arms, by name.
        law: Section of the controllet.
        objects: Sections of the objects, by name.
        touching: Names of objects that the arms may touch.

    Raises:
        ConfigurationError: If the cell is invalid.
    """
    real = [name for name, arm in arms.items() if arm.backend != SIMULATED_BACKEND]
    settings = config.cell.model_copy(
        update={"placement": "process" if real else "inline", "viewer": False}
    )
    laws = {CONTROLLET_NAME: ControlletConfig.model_validate({**law, "arms": list(arms)})}
    if real:
        laws[TO_START] = ControlletConfig.model_validate({"type": "joint_trajectory"})
    simulated = len(real) < len(arms)  # Cells of real arms do not know the objects.
    made = config.model_copy(
        update={
            "cell": settings,
            "arms": dict(arms),
            "objects": dict(objects) if simulated else {},
            "collisions": CollisionsConfig(allowed_contacts=list(touching) if simulated else []),
            "controllets": laws,
            "active": [] if real else [CONTROLLET_NAME],
        }
    )
    faults: Faults = []
    check_cell(made, faults)
    if faults:
        raise ConfigurationError(*faults)
    return made


REST_TIME = 0.2
"""Time after a motion in which the arm comes to rest and is still recorded [s]."""


class MotionTask(Task):
    """Task that executes a motion with ``joint_trajectory`` through :meth:`.Cell.follow`.

    Args:
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n).
    """

    number, title = 0, "excitation of inertia and friction"
    laws: ClassVar[tuple[str, ...]] = ("joint_trajectory",)

    def __init__(self, arm: str, points: Matrix) -> None:
        super().__init__(seconds=float(points[-1, 0]) + REST_TIME)
        self._arm, self._points = arm, points

    def names(self, config: CellConfig) -> list[str]:
        if self._arm not in config.arms:
            raise UnknownName("arm", self._arm, tuple(config.arms))
        return [self._arm]

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the arm at the start of the motion."""
        (name,) = self.names(config)
        start = self._points[0, 1 : 1 + config.arms[name].robot.n_joints]
        arm = with_start(config.arms[name], np.array(start), None)
        return task_cell(config, {name: arm}, {"type": "joint_trajectory"}, {})

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Wait until the arm is at rest."""
        advance(100)

    def set_targets(self, cell: Cell, time: float) -> None:
        """Send the whole motion at time 0."""
        if time == 0.0:
            cell.follow(self._arm, self._points)
