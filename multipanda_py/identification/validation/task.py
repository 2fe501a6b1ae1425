# SPDX-License-Identifier: Apache-2.0
"""Base class of validation tasks, and functions that build their scenes and move real arms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
import pinocchio as pin

from multipanda_py.cell import Cell
from multipanda_py.config.arm_section import ArmConfig, ToolConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.rules import Faults, check_cell
from multipanda_py.config.sections import CollisionsConfig, ControlletConfig, ObjectConfig
from multipanda_py.control.reference.differential_ik import PositionIK
from multipanda_py.exceptions import ConfigurationError, LoopError, UnknownName, ValidationRejected
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.state import Matrix, Vector

SIMULATED_BACKEND = "mujoco"
CONTROLLET_NAME = "law"
TARGET_CYCLES = 10
"""Cycles between two targets."""
FAST_TARGET_CYCLES = 2
"""Cycles between two targets of a task with its own controller, if the loop is another process."""


class PassTime(Protocol):
    """Function that advances a cell by a number of cycles, by steps or in real time."""

    def __call__(self, cycles: int) -> None:
        """Advance the cell by ``cycles`` cycles. The call returns after the last cycle."""


class Task(ABC):
    """Experiment that runs identically on every cell with enough arms.

    A task uses the first arms of a cell. Simulated arms get the start configuration, tool,
    controllet and objects of the task. Real arms keep their tools.

    Args:
        controllet: Controllet or variant, one of ``controllets``.
        seconds: Duration [s].

    Attributes:
        number: Number of the task in :data:`.TASKS`, as in the multipanda_ros2 paper.
        title: Short title.
        controllets: Names of the force controllets or other variants of the task.
        arms: Number of arms.
        keeps_settling: True to record the time before the first target as well.
        objects: Objects around the arms by name, available after :meth:`scene`. A person has to
            set them up around real arms.
        forces_on_objects: Largest force of each arm on its object in the world frame, by name,
            (3,) [N]. Available after :meth:`scene`.
    """

    number: ClassVar[int]
    title: ClassVar[str]
    controllets: ClassVar[tuple[str, ...]] = ("impedance",)
    arms: ClassVar[int] = 1
    keeps_settling: ClassVar[bool] = False

    def __init__(self, controllet: str = "", seconds: float = 10.0) -> None:
        self.controllet = controllet or self.controllets[0]
        if self.controllet not in self.controllets:
            raise ValidationRejected(
                f"task {self.number}: controllet: got {controllet!r}, allowed "
                f"{', '.join(self.controllets)}"
            )
        if not 0.5 <= seconds <= 600.0:
            raise ValidationRejected(
                f"task {self.number}: duration: got {seconds:g} s, allowed 0.5 to 600 s"
            )
        self.seconds = seconds
        self.objects: Mapping[str, ObjectConfig] = {}
        self.forces_on_objects: Mapping[str, Vector] = {}

    @property
    def needs_every_cycle(self) -> bool:
        """True if the task sets targets in every cycle, False if in every tenth cycle.

        True means every second cycle if the placement of the cell is not ``inline``.
        """
        return False

    @abstractmethod
    def scene(self, config: CellConfig) -> CellConfig:
        """Return a cell for the task: its arms at the start, controllet and objects.

        Args:
            config: Cell with the arms, which is not changed.

        Raises:
            ValidationRejected: If the cell has too few arms or they cannot reach the start.
        """

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Bring the arms to the initial state of the task.

        Args:
            cell: Running cell of the task.
            advance: Function that advances the cell by a number of cycles.
        """

    def restore_scene(self, cell: Cell, advance: PassTime) -> None:
        """Put objects down and move tools away from them, so that the next motion is free.

        Args:
            cell: Running cell of the task.
            advance: Function that advances the cell by a number of cycles.
        """

    @abstractmethod
    def set_targets(self, cell: Cell, time: float) -> None:
        """Send the targets of the controllet for a time of the task.

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
        raise ValidationRejected(
            f"task {self.number}: has a requested force, but its class does not implement "
            "contact_forces and force_component"
        )

    def force_component(self, contact_forces: Matrix) -> Vector:
        """Return the component of contact forces in the requested direction, (arms,) [N]."""
        raise ValidationRejected(
            f"task {self.number}: has a requested force, but its class does not implement "
            "contact_forces and force_component"
        )

    def names(self, config: CellConfig) -> list[str]:
        """Return the names of the first arms of a cell, which take part in the task.

        Raises:
            ValidationRejected: If the cell has too few arms.
        """
        if len(config.arms) < self.arms:
            raise ValidationRejected(
                f"task {self.number} ({self.title}): got a cell with {len(config.arms)} arm, "
                f"allowed {self.arms} or more arms"
            )
        return list(config.arms)[: self.arms]


def with_start(arm: ArmConfig, q: Vector, tool: Mapping[str, Any] | None) -> ArmConfig:
    """Return the description of an arm that starts in a given configuration.

    Args:
        arm: Description of the arm.
        q: Joint positions, (n,) [rad].
        tool: Section ``tool`` of the cell file for a simulated arm without a tool, or None. It
            replaces the gripper.
    """
    update: dict[str, Any] = {"q_start": q.tolist()}
    if tool is not None and arm.backend == SIMULATED_BACKEND and arm.tool is None:
        update |= {"gripper": False, "tool": ToolConfig.model_validate(tool)}
    return arm.model_copy(update=update)


def rod(length: float) -> dict[str, Any]:
    """Return the tool section of a light rod of a ``length`` [m] with a round tip."""
    return {
        "mass": 0.2,
        "com": [0.0, 0.0, length / 2],
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0],
        "position": [0.0, 0.0, length],
    }


def object_like(config: CellConfig, name: str, values: Mapping[str, Any]) -> ObjectConfig:
    """Return an object of a task, with the contact parameters of that name in the cell.

    Args:
        config: Cell of the task, whose object of this name defines friction and contact
            parameters.
        name: Name of the object.
        values: Section of the object in the task.
    """
    own = config.objects.get(name)
    keys = ("friction", "contact_time", "contact_damping")
    surface = {} if own is None else {key: getattr(own, key) for key in keys}
    return ObjectConfig.model_validate({**values, **surface})


def task_cell(
    config: CellConfig,
    arms: Mapping[str, ArmConfig],
    controllet: Mapping[str, Any],
    objects: Mapping[str, ObjectConfig],
    touching: Sequence[str] = (),
) -> CellConfig:
    """Return a cell with the arms, controllet and objects of a task.

    If all arms are simulated, the placement of the cell is ``inline``, else ``process``.

    Args:
        config: Cell to start from.
        arms: Sections of the arms, by name.
        controllet: Section of the controllet.
        objects: Sections of the objects, by name.
        touching: Pairs of arm and object that may touch, such as ``left table``.

    Raises:
        ConfigurationError: If the cell is invalid.
    """
    real = [name for name, arm in arms.items() if arm.backend != SIMULATED_BACKEND]
    settings = config.cell.model_copy(
        update={"placement": "process" if real else "inline", "viewer": False}
    )
    controllets = {
        CONTROLLET_NAME: ControlletConfig.model_validate({**controllet, "arms": list(arms)})
    }
    if real:
        controllets[TO_START] = ControlletConfig.model_validate({"type": "joint_trajectory"})
    simulated = len(real) < len(arms)  # Objects exist only in a cell with a simulated arm.
    made = config.model_copy(
        update={
            "cell": settings,
            "arms": dict(arms),
            "objects": dict(objects) if simulated else {},
            "collisions": CollisionsConfig(allowed_contacts=list(touching) if simulated else []),
            "controllets": controllets,
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
    """Task that executes a motion through :meth:`.Cell.follow_trajectory`.

    Args:
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n).
    """

    number, title = 0, "excitation of inertia and friction"
    controllets: ClassVar[tuple[str, ...]] = ("joint_trajectory",)

    def __init__(self, arm: str, points: Matrix) -> None:
        super().__init__(seconds=float(points[-1, 0]) + REST_TIME)
        self._arm, self._points = arm, points

    def names(self, config: CellConfig) -> list[str]:
        if self._arm not in config.arms:
            raise UnknownName("arm", self._arm, tuple(config.arms))
        return [self._arm]

    def scene(self, config: CellConfig) -> CellConfig:
        """Return a cell for ``joint_trajectory``, with the arm at the start of the motion."""
        (name,) = self.names(config)
        start = self._points[0, 1 : 1 + config.arms[name].robot.n_joints]
        arm = with_start(config.arms[name], np.array(start), None)
        return task_cell(config, {name: arm}, {"type": "joint_trajectory"}, {})

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Give the arm time to come to rest."""
        advance(100)

    def set_targets(self, cell: Cell, time: float) -> None:
        """Send the whole motion at time 0. Later calls have no effect."""
        if time == 0.0:
            cell.follow_trajectory(self._arm, self._points)


# Inverse kinematics: gain [1/s], time step [s], number of steps per initial guess, and number of
# initial guesses.
_IK_GAIN, _IK_PERIOD, _IK_STEPS, _IK_GUESSES = 20.0, 0.01, 300, 20
# Maximum errors of position and orientation of a solution [m, rad].
_POSE_TOLERANCE = np.array((1e-4, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3))
LIMIT_MARGIN = 0.05
"""Minimum distance to the joint position limits [rad, m]."""


def tool_in_world(arm: ArmDescription, q: Vector) -> Pose:
    """Return the tool pose of an arm at joint positions ``q``, (n,) [rad], in the world frame."""
    model = build_pinocchio(arm, base_in_world=True)
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    pose = data.oMf[model.getFrameId(arm.ee_frame)]
    return Pose(pose.translation.copy(), pose.rotation.copy())


def pointing(rotation: Matrix, direction: Vector) -> Matrix:
    """Rotate an orientation by the smallest angle that aligns its z axis with a direction.

    Args:
        rotation: Orientation, (3, 3).
        direction: Direction in the same frame, (3,).

    Returns:
        Rotated orientation, (3, 3).
    """
    quaternion = pin.Quaternion.FromTwoVectors(rotation[:, 2], np.asarray(direction, float))
    turned: Matrix = quaternion.toRotationMatrix() @ rotation
    return turned


def configuration_at(
    arm: ArmDescription, pose_in_world: Pose, q: Vector, description: str
) -> Vector:
    """Solve the inverse kinematics for a tool pose near a given configuration.

    Args:
        arm: Description of the arm.
        pose_in_world: Pose of the tool in the world frame.
        q: Joint positions to start from and to stay close to, (n,) [rad].
        description: Prefix of the error message.

    Returns:
        Joint positions, (n,) [rad].

    Raises:
        ValidationRejected: If no solution is found.
    """
    base = arm.rotation_base_in_world
    position = base.T @ (pose_in_world.position - arm.position_base_in_world)
    rotation = base.T @ pose_in_world.rotation
    search = PositionIK(arm)
    lower, upper = (np.where(arm.limits.endless, np.inf * sign, side)
                    for sign, side in zip((-1.0, 1.0), arm.limits.span))  # fmt: skip
    rng, start = np.random.default_rng(0), np.array(q, dtype=np.float64)
    for _ in range(_IK_GUESSES):
        result = start.copy()
        for number in range(_IK_STEPS):
            low, high = (
                (lower + LIMIT_MARGIN - result) / _IK_PERIOD,
                (upper - LIMIT_MARGIN - result) / _IK_PERIOD,
            )
            step = search.rate(
                result, position, rotation, np.zeros(6), _IK_GAIN, start,
                1.0 if number < _IK_STEPS // 2 else 0.0,
                (np.minimum(np.maximum(low, -5.0), 0.0), np.maximum(np.minimum(high, 5.0), 0.0)),
            )  # fmt: skip
            if (np.abs(search.error) < _POSE_TOLERANCE).all():
                return result
            result = result + _IK_PERIOD * step
        start = np.clip(
            q + rng.uniform(-1.0, 1.0, len(q)), lower + LIMIT_MARGIN, upper - LIMIT_MARGIN
        )
    raise ValidationRejected(
        f"{description}: arm {arm.name} does not reach "
        f"{np.round(pose_in_world.position, 3).tolist()} m "
        "in the world frame with the tool orientation of the task. Check the base pose of the arm."
    )


TO_START = "to_start"
"""Name of the controllet that moves real arms to the start of a task and away from it."""
APPROACH_DISTANCE = 0.08
"""Length of the final approach to the start of a task, in the direction of the force that the arm
will exert [m]."""
END_TOLERANCE, WAYPOINT_TOLERANCE = 5e-3, 0.05
"""Tolerances at the end of a motion and at a waypoint [rad, m]."""
MAX_START_SPEED = 0.02
"""Maximum joint speed at the start of a task [rad/s, m/s]."""
MAX_END_DISTANCE = 0.2
"""Distance of an arm from the end of its motion above which it has stopped early [rad, m].
Position errors due to gravity and friction are smaller."""
MAX_MOTION_DURATION = 60.0
"""Maximum duration of each part of a motion [s]."""


def go_to_start(cell: Cell, config: CellConfig, forces_on_objects: Mapping[str, Vector]) -> None:
    """Move arms to the start of a task, approaching objects along the force direction.

    Args:
        cell: Running cell with real arms.
        config: Scene of the task with start configurations.
        forces_on_objects: Forces on the objects by arm, in the world frame, (3,) [N].

    Raises:
        MultipandaError: If an arm does not reach its start.
    """
    starts = {name: np.array(arm.q_start) for name, arm in config.arms.items()}
    before = {}
    for name, force in forces_on_objects.items():
        arm, q = describe_arm(name, config.arms[name]), starts[name]
        tool = tool_in_world(arm, q)
        position = tool.position - APPROACH_DISTANCE / np.linalg.norm(force) * force
        before[name] = configuration_at(
            arm, Pose(position, tool.rotation), q, f"approach of {name}"
        )
    cell.switch([f"{name}/{TO_START}" for name in starts], strictness="force_auto")
    if before:
        _go(cell, {**starts, **before}, WAYPOINT_TOLERANCE, "approach of the start")
    _go(cell, starts, END_TOLERANCE, "start configuration", MAX_START_SPEED)


def retreat(
    cell: Cell, arms: Mapping[str, ArmDescription], steps: Mapping[str, Vector], description: str
) -> None:
    """Move the tools of arms by one displacement each, away from the objects they touch.

    Args:
        cell: Running cell with real arms.
        arms: Descriptions of the arms to move, by name.
        steps: Displacements by arm in the world frame, (3,) [m].
        description: Prefix of error messages.

    Raises:
        MultipandaError: If an arm cannot reach its goal or does not arrive.
    """
    goals: dict[str, Vector] = {}
    for name, arm in arms.items():
        here, rotation = cell.pose(name), arm.rotation_base_in_world
        position = arm.position_base_in_world + rotation @ here.position + steps[name]
        q = cell.state(name).q.copy()
        goals[name] = configuration_at(
            arm, Pose(position, rotation @ here.rotation), q, description
        )
    cell.switch([f"{name}/{TO_START}" for name in arms], strictness="force_auto")
    _go(cell, goals, 2.0 * END_TOLERANCE, f"{description}: retreat")


def _go(
    cell: Cell, goals: Mapping[str, Vector], near: float, description: str, slow: float = np.inf
) -> None:
    for name, q in goals.items():
        cell.set_target(name, q=q)

    def is_over() -> bool:
        states = {name: cell.state(name) for name in goals}
        there = all(
            np.abs(states[name].q - q).max() < near and np.abs(states[name].dq).max() < slow
            for name, q in goals.items()
        )
        return there or any(state.fault for state in states.values())

    cell.wait(is_over, MAX_MOTION_DURATION, description)
    if fault := fault_of(cell):
        raise LoopError(f"{description}: {fault}")


def fault_of(cell: Cell) -> str:
    """Return the fault message of an arm of the cell, or an empty string without a fault."""
    faults = cell.latest_record()["arms"]["fault"]
    if not faults.any():
        return ""
    events = [event for event in cell.events() if event.event.is_fault]
    words = [" ".join(str(event).split()) for event in events]
    return words[0] if words else f"fault {int(faults.max())} of an arm"
