# SPDX-License-Identifier: Apache-2.0
"""Validation tasks by number, and the objects and tools that they need around real arms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.arm_section import ArmConfig
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.config.part_rules import with_rigid_hand
from multipanda_py.config.sections import ObjectConfig
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.validation.pressing_tasks import ForceCircle, ForceSine
from multipanda_py.identification.validation.task import (
    CONTROLLET_NAME,
    SIMULATED_BACKEND,
    TARGET_CYCLES,
    PassTime,
    Task,
    configuration_at,
    object_like,
    pointing,
    retreat,
    rod,
    task_cell,
    tool_in_world,
    with_start,
)
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

START_CONFIGURATIONS = (
    np.array([0.4451, 0.02959, -0.5255, -2.25892, -1.61219, 1.64112, 0.71578]),
    np.array([-0.73593, 0.03744, 0.82009, -2.25883, 1.60509, 1.65203, -0.71612]),
)
"""Start configurations of Franka arms on either side. Other arms start from their ready
configuration."""
HALF_EDGES = (0.06, 0.095, 0.1)
"""Half edges of the box: forward, from arm to arm, up [m]."""
FORWARD, HEIGHT, CLEARANCE = 0.5, 0.4, 0.003
"""Distances of the box in front of and above the bases, and of the tools from it [m]."""
LIFT_HEIGHT, INTERNAL_FORCE = 0.2, 20.0
"""Height of the lift [m] and internal force on the box [N]."""
UPRIGHT_POSE = Pose.identity()
LIFT_SAG = 0.006
"""Distance by which the weight of the box deflects the compliant controllet, added to the lift
[m]."""
LOWERING_TIME, RELEASE_CYCLES, RETREAT_DISTANCE = 2.5, 500, 0.03
"""Duration of lowering the box [s], cycles at zero internal force, and retreat distance [m] of
real arms."""


class BoxLift(Task):
    """Task that lifts a box by 20 cm between two arms, which press on it with 20 N each."""

    number, title = 5, "a box held with 20 N and lifted by 20 cm"
    controllets = ("coupled ufic",)
    arms = 2

    def scene(self, config: CellConfig) -> CellConfig:
        """Return a cell with a box on a table, in front of the first two arms and between them."""
        names = self.names(config)
        bases = [np.array(config.arms[name].position) for name in names]
        apart = bases[0] - bases[1]
        apart[2] = 0.0
        distance = float(np.linalg.norm(apart))
        if not 0.3 <= distance <= 1.6:
            raise ValidationRejected(
                f"task 5: bases of {' and '.join(names)}: got a distance of {distance:.2f} m, "
                "allowed 0.3 to 1.6 m"
            )
        side = apart / distance
        forward = np.cross(side, [0.0, 0.0, 1.0])
        middle = 0.5 * (bases[0] + bases[1]) + FORWARD * forward + np.array([0, 0, HEIGHT])
        arms = {}
        for name, sign, start in zip(names, (1.0, -1.0), START_CONFIGURATIONS):
            arm = with_start(config.arms[name], np.array(config.arms[name].q_start), rod(0.06))
            described = describe_arm(name, arm)
            franka = arm.robot.name in ("fr3", "fer")
            q = start if franka else np.array(arm.robot.ready)
            here = tool_in_world(described, q)
            goal = Pose(
                middle + sign * (HALF_EDGES[1] + CLEARANCE) * side,
                pointing(here.rotation, -sign * side),
            )
            q = configuration_at(described, goal, q, "task 5")
            arms[name] = with_start(arm, q, None)
        self._described = {name: describe_arm(name, arm) for name, arm in arms.items()}
        self._tools = [f"{arm.prefix}tool" for arm in self._described.values()]
        self._side = side
        self.forces_on_objects = {
            name: -sign * INTERNAL_FORCE * side for name, sign in zip(names, (1.0, -1.0))
        }
        yaw = math.atan2(side[1], side[0]) - 0.5 * math.pi
        table = {
            "shape": "box",
            "size": [0.2, 0.3, 0.02],
            "rpy": [0.0, 0.0, yaw],
            "position": (middle - np.array([0, 0, HALF_EDGES[2] + 0.02])).tolist(),
        }
        box = {"shape": "box", "size": list(HALF_EDGES), "rpy": [0.0, 0.0, yaw], "mass": 0.8,
               "position": middle.tolist()}  # fmt: skip
        controllet: dict[str, Any] = {
            "type": "coupled_force_impedance",
            "params": {"stiffness": [4000.0, 4000.0, 4000.0, 100.0, 100.0, 100.0]},
        }
        self.objects = {"table": object_like(config, "table", table),
                       "box": object_like(config, "box", box)}  # fmt: skip
        return task_cell(config, arms, controllet, self.objects)

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Request the internal force, and wait until both tools press with 90 % of it."""
        advance(TARGET_CYCLES)
        report = cell.report(CONTROLLET_NAME)
        self._start: Vector = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
        cell.set_object_target(CONTROLLET_NAME, internal_force=INTERNAL_FORCE)
        for _ in range(40):
            advance(100)
            pressed = [
                float(np.linalg.norm(cell.state(arm).wrench_ext_in_base[:3])) for arm in cell.arms
            ]
            if min(pressed) > 0.9 * INTERNAL_FORCE:
                break
        advance(800)

    def set_targets(self, cell: Cell, time: float) -> None:
        """Send the target pose of the box. Its height rises and then stays constant."""
        fraction = min(time / (0.8 * self.seconds), 1.0)
        height = 0.5 * (LIFT_HEIGHT + LIFT_SAG) * (1.0 - math.cos(math.pi * fraction))
        goal = self._start + np.array([0.0, 0.0, height])
        cell.set_object_target(CONTROLLET_NAME, UPRIGHT_POSE.with_position(goal))

    def restore_scene(self, cell: Cell, advance: PassTime) -> None:
        """Put the box down, release it, and move the tools away from it."""
        steps = round(LOWERING_TIME * cell.config.cell.rate) // TARGET_CYCLES
        for k in range(steps):
            fraction = 0.5 * (1.0 + math.cos(math.pi * (k + 1) / steps))
            goal = self._start + np.array([0.0, 0.0, fraction * (LIFT_HEIGHT + LIFT_SAG)])
            cell.set_object_target(CONTROLLET_NAME, Pose(goal, np.eye(3)))
            advance(TARGET_CYCLES)
        cell.set_object_target(CONTROLLET_NAME, internal_force=0.0)
        advance(RELEASE_CYCLES)
        outwards = {
            name: -RETREAT_DISTANCE * force / INTERNAL_FORCE
            for name, force in self.forces_on_objects.items()
        }
        retreat(cell, self._described, outwards, "task 5")

    def requested_force(self, times: Vector) -> Vector | None:
        """Return the constant internal force of 20 N at each of the given times, (n,) [N]."""
        return np.full(len(times), INTERNAL_FORCE)

    def contact_forces(self, cell: Cell) -> Matrix:
        """Return the force of the box on each tool, (2, 3) [N]."""
        return np.array([cell.simulation.contact_force(tool, "box") for tool in self._tools])

    def force_component(self, contact_forces: Matrix) -> Vector:
        """Return the force components along the line between the two tools, (2,) [N]."""
        along: Vector = contact_forces @ self._side * (1.0, -1.0)
        return along


HALF_SWING_PERIOD = 2.5
"""Half a period of the swinging motion [s]."""
SETTLE_CYCLES = 100
"""Cycles before the swinging motion starts."""


class JointSwing(Task):
    r"""Task that swings joints 4 and 5 under joint impedance control.

    .. math:: q_{4,5}(t) = q_0 \pm \frac{\pi}{8} (1 - \cos(\pi t / 2.5\,\mathrm{s})).

    Symbols: start position :math:`q_0`. The sign is that of the direction to the more distant
    position limit of the joint. If this limit is near, the amplitude is smaller.
    """

    number, title = 1, "joint impedance in free space"
    amplitude = math.pi / 8

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the first arm in its ready configuration."""
        (name,) = self.names(config)
        robot = config.arms[name].robot
        self._arm, self._q = name, np.array(robot.ready)
        joints = [j for j in (3, 4) if j < robot.n_joints] or [robot.n_joints - 1]
        lower, upper = robot.limits.span
        self._swing: Vector = np.zeros(robot.n_joints)
        # Each joint swings towards the position limit that is farther away.
        for joint in joints:
            up, down = upper[joint] - self._q[joint], self._q[joint] - lower[joint]
            available_range = max(up, down) - 0.1
            self._swing[joint] = math.copysign(
                min(self.amplitude, 0.5 * available_range), up - down
            )
        arm = with_start(config.arms[name], self._q, None)
        return task_cell(config, {name: arm}, {"type": "joint_impedance"}, {})

    def settle(self, cell: Cell, advance: PassTime) -> None:
        advance(SETTLE_CYCLES)

    def set_targets(self, cell: Cell, time: float) -> None:
        fraction = 1.0 - math.cos(math.pi * time / HALF_SWING_PERIOD)
        cell.set_target(self._arm, q=self._q + fraction * self._swing)


class ToolSwing(Task):
    r"""Task that swings the tool sideways under Cartesian impedance control, without rotation.

    .. math:: y(t) = y_0 + 0.05\,\mathrm{m}\,(1 - \cos(\pi t / 2.5\,\mathrm{s})).

    Symbols: start position :math:`y_0`.
    """

    number, title = 2, "Cartesian impedance in free space"
    amplitude = 0.05

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the first arm in its ready configuration."""
        (name,) = self.names(config)
        self._arm = name
        arm = with_start(config.arms[name], np.array(config.arms[name].robot.ready), None)
        return task_cell(config, {name: arm}, {"type": "cartesian_impedance"}, {})

    def settle(self, cell: Cell, advance: PassTime) -> None:
        """Give the arm time to come to rest, and store its tool pose as the start of the swing."""
        advance(SETTLE_CYCLES)
        self._start = cell.pose(self._arm)

    def set_targets(self, cell: Cell, time: float) -> None:
        y = self.amplitude * (1.0 - math.cos(math.pi * time / HALF_SWING_PERIOD))
        goal = self._start.with_position(self._start.position + np.array([0.0, y, 0.0]))
        cell.set_target(self._arm, goal)


TASKS: Mapping[int, type[Task]] = {
    kind.number: kind for kind in (JointSwing, ToolSwing, ForceSine, ForceCircle, BoxLift)
}
"""Tasks of multipanda_ros2, section V-B."""


def make_task(number: int, controllet: str = "", seconds: float = 10.0) -> Task:
    """Return a task by its number.

    Args:
        number: Number of the task.
        controllet: Name of the controllet; empty for the default of the task.
        seconds: Duration [s].

    Raises:
        ValidationRejected: If number, controllet or duration is not allowed.
    """
    if number not in TASKS:
        raise ValidationRejected(f"task: got {number}, allowed {', '.join(map(str, TASKS))}")
    return TASKS[number](controllet, seconds)


def has_real_arms(config: CellConfig, task: Task) -> bool:
    """Return True if an arm of the task is not simulated."""
    return any(config.arms[name].backend != SIMULATED_BACKEND for name in task.names(config))


def with_tools_of(plant: CellConfig, twin: CellConfig) -> CellConfig:
    """Return a twin whose arms carry the grippers and tools of the plant's real arms.

    Arms are paired by order. A tool defined in the twin is kept.
    """
    arms = dict(twin.arms)
    for (name, arm), real in zip(twin.arms.items(), plant.arms.values()):
        if real.backend != SIMULATED_BACKEND and arm.tool is None:
            arms[name] = _carrying(arm, with_rigid_hand(real))
    return twin.model_copy(update={"arms": arms})


def _carrying(arm: ArmConfig, rigid: ArmConfig) -> ArmConfig:
    return arm.model_copy(update={"gripper": False, "tool": rigid.tool})


def in_task(config: CellConfig, number: int) -> CellConfig:
    """Return a cell with the objects of a task around its arms. The arms keep their tools.

    Raises:
        ValidationRejected: If the task has no objects or cannot run with these arms.
    """
    if number not in TASKS:
        raise ValidationRejected(f"task: got {number}, allowed {', '.join(map(str, TASKS))}")
    rigid = {name: with_rigid_hand(arm) for name, arm in config.arms.items()}
    task = make_task(number)
    task.scene(config.model_copy(update={"arms": rigid}))
    return config.model_copy(update={"objects": dict(task.objects)})


def objects_of(tasks: Sequence[Task], plant: CellConfig) -> Mapping[str, ObjectConfig]:
    """Return the objects that tasks need around real arms. Names include the task number."""
    result = {}
    for task in tasks:
        if has_real_arms(plant, task):
            task.scene(plant)
            result.update({f"task{task.number}_{k}": obj for k, obj in task.objects.items()})
    return result


def setup_instructions(tasks: Sequence[Task], plant: CellConfig) -> Iterator[str]:
    """Yield instructions for a person to set up the objects of tasks around real arms.

    Each message states the pose of one object.
    """
    for name, obj in objects_of(tasks, plant).items():
        number, _, suffix = name.removeprefix("task").partition("_")
        size = " x ".join(f"{2.0 * half:g}" for half in obj.size)
        path = ", ".join(f"{x:.3f}" for x in obj.position)
        mass = f" and {obj.mass:g} kg" if obj.mass else ", fixed"
        turned = f", rotated by {obj.rpy[2]:.2f} rad about z" if abs(obj.rpy[2]) > 5e-3 else ""
        yield (
            f"task {number} needs a {suffix} of {size} m{mass}, its centre at ({path}) m in the "
            f"world frame{turned}"
        )
