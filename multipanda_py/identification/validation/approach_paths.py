# SPDX-License-Identifier: Apache-2.0
"""Motions of real arms to the start of a task and away from it with ``joint_trajectory``."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pinocchio as pin

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.control.reference.governor_commanded_pose import PositionIK
from multipanda_py.exceptions import LoopError, ValidationRefused
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_model import build_pinocchio
from multipanda_py.state import Matrix, Vector

# Inverse kinematics: gain [1/s], time step [s], steps per initial guess, initial guesses.
_GAIN, _PERIOD, _STEPS, _TRIES = 20.0, 0.01, 300, 20
_POSE_TOLERANCE = np.array((1e-4, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3))
LIMIT_MARGIN = 0.05
"""Minimum distance to the joint position limits [rad, m]."""


def tool_in_world(arm: ArmDescription, q: Vector) -> Pose:
    """Return the tool pose of an arm in the world.

    Args:
        arm: Description of the arm.
        q: Joint positions, (n,) [rad].
    """
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
        pose_in_world: Pose of the tool.
        q: Joint positions to start from and to stay close to, (n,) [rad].
        description: Prefix of the error message.

    Returns:
        Joint positions, (n,) [rad].

    Raises:
        ValidationRefused: If no solution is found.
    """
    base = arm.rotation_base_in_world
    position = base.T @ (pose_in_world.position - arm.position_base_in_world)
    rotation = base.T @ pose_in_world.rotation
    search = PositionIK(arm)
    lower, upper = (np.where(arm.limits.endless, np.inf * sign, side)
                    for sign, side in zip((-1.0, 1.0), arm.limits.span))  # fmt: skip
    rng, start = np.random.default_rng(0), np.array(q, dtype=np.float64)
    for _ in range(_TRIES):
        result = start.copy()
        for number in range(_STEPS):
            low, high = (
                (lower + LIMIT_MARGIN - result) / _PERIOD,
                (upper - LIMIT_MARGIN - result) / _PERIOD,
            )
            step = search.rate(
                result, position, rotation, np.zeros(6), _GAIN, start,
                1.0 if number < _STEPS // 2 else 0.0,
                (np.minimum(np.maximum(low, -5.0), 0.0), np.maximum(np.minimum(high, 5.0), 0.0)),
            )  # fmt: skip
            if (np.abs(search.error) < _POSE_TOLERANCE).all():
                return result
            result = result + _PERIOD * step
        start = np.clip(
            q + rng.uniform(-1.0, 1.0, len(q)), lower + LIMIT_MARGIN, upper - LIMIT_MARGIN
        )
    raise ValidationRefused(
        f"{description}: arm {arm.name} does not reach "
        f"{np.round(pose_in_world.position, 3).tolist()} m "
        "in the world frame with the tool orientation of the task"
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
MAX_DURATION = 60.0
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

    cell.wait(is_over, MAX_DURATION, description)
    if fault := fault_of(cell):
        raise LoopError(f"{description}: {fault}")


def fault_of(cell: Cell) -> str:
    """Return the fault message of an arm of the cell, or an empty string without a fault."""
    faults = cell.row()["arms"]["fault"]
    if not faults.any():
        return ""
    events = [event for event in cell.events() if event.event.is_fault]
    words = [" ".join(str(event).split()) for event in events]
    return words[0] if words else f"fault {int(faults.max())} of an arm"
