# SPDX-License-Identifier: Apache-2.0
"""Conversion and check of FollowJointTrajectory goals.

Thread: executor; no function keeps state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from control_msgs.action import FollowJointTrajectory

from multipanda_py.controllets.targets.joint import MAX_DELAY
from multipanda_py.exceptions import TargetRejected
from multipanda_py.planning.trajectory.trajectory import complete, thin
from multipanda_py.ros.node.conversions import in_full, joint_name_fault
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS

Result = FollowJointTrajectory.Result
THIN_TOLERANCE = 5e-3
"""Maximum deviation of a thinned path from the omitted points [rad, m for a prismatic joint]."""


MAX_POINTS = 5000
"""Maximum number of points of a goal, before thinning."""


class GoalRefused(TargetRejected):
    """Rejected goal.

    Attributes:
        code: Error code for the result of the action.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class TrajectoryGoal(NamedTuple):
    """Checked goal. A tolerance of 0 selects that of the controllet, a negative one disables it.

    Attributes:
        points: Trajectory points, (p, 1 + 3 n): time from the start [s], positions, velocities,
            accelerations.
        path_tolerance: Tolerance along the path, (n,) [rad, m for a prismatic joint].
        goal_tolerance: Tolerance at the goal, (n,) [rad, m for a prismatic joint].
        goal_time: Tolerance of the goal time [s].
        stamp_ns: Stamp of the goal, 0 without a stamp [ns].
        ahead: Time until the start, 0 for an immediate start [s].
    """

    points: Matrix
    path_tolerance: Vector
    goal_tolerance: Vector
    goal_time: float
    stamp_ns: int
    ahead: float


def named_arms(joint_names: Sequence[str], arms: Sequence[Sequence[str]]) -> list[int]:
    """Return the indices of the arms that have one of the joints; all arms if none has."""
    result = [index for index, names in enumerate(arms) if not set(names).isdisjoint(joint_names)]
    return result or list(range(len(arms)))


def with_resting(goal: TrajectoryGoal, named: Sequence[int], q: Vector) -> TrajectoryGoal:
    """Return a goal for all joints, in which those without values rest at their positions.

    Args:
        goal: Goal for m joints.
        named: Indices of these joints among all n, (m,).
        q: Positions of all joints, (n,) [rad].
    """
    points = np.zeros((len(goal.points), 3, len(q)))
    points[:, 0] = q
    points[:, :, named] = goal.points[:, 1:].reshape(len(points), 3, -1)
    path_tolerance, goal_tolerance = np.zeros((2, len(q)))
    path_tolerance[named], goal_tolerance[named] = goal.path_tolerance, goal.goal_tolerance
    return goal._replace(
        points=np.hstack([goal.points[:, :1], points.reshape(len(points), -1)]),
        path_tolerance=path_tolerance,
        goal_tolerance=goal_tolerance,
    )


def read_goal(
    goal: Any, names: Sequence[str], now_ns: int, units: Sequence[str] = ()
) -> TrajectoryGoal:
    """Return the checked goal of a ``FollowJointTrajectory`` request, with joints in order.

    Missing velocities and accelerations are computed by :func:`.complete`. Points in the past are
    dropped, and a path with more than ``TRAJECTORY_POINTS`` points is thinned.

    Args:
        goal: Goal of the action.
        names: Joints of the arms, in order.
        now_ns: Time of the node [ns].
        units: Units of the joint positions; by default rad.

    Raises:
        GoalRefused: If the goal is not valid, with code and reason.
    """
    trajectory = goal.trajectory
    _check_sizes_and_unsupported_fields(goal, names)
    order = _joint_order(list(trajectory.joint_names), names)
    points = trajectory.points
    if not points:
        raise GoalRefused(Result.INVALID_GOAL, "trajectory.points: got none, allowed one or more")
    times = np.array([_seconds(point.time_from_start) for point in points])
    if times[0] < 0 or (np.diff(times) <= 0).any():
        raise GoalRefused(
            Result.INVALID_GOAL, "time_from_start: must start at 0 or later and increase"
        )
    q, dq, ddq = (
        _field_in_joint_order(points, field, order, names)
        for field in ("positions", "velocities", "accelerations")
    )
    if q is None:
        raise GoalRefused(Result.INVALID_GOAL, "positions: missing. Set them in every point")
    rows = complete(times, q, dq, ddq)
    stamp_ns = _nanoseconds(trajectory.header.stamp)
    ahead = 0.0
    if stamp_ns:
        ahead = (stamp_ns - now_ns) * 1e-9
        if ahead > MAX_DELAY:
            raise GoalRefused(
                Result.INVALID_GOAL,
                f"header.stamp: {ahead:.3f} s in the future, allowed {MAX_DELAY:g} s. "
                "Synchronise the clocks of both machines (chrony, ntp)",
            )
        rows[:, 0] += min(ahead, 0.0)
        if rows[-1, 0] <= 0:
            raise GoalRefused(
                Result.OLD_HEADER_TIMESTAMP,
                f"header.stamp: the trajectory ended {-rows[-1, 0]:.3f} s ago. Send it earlier",
            )
        rows = rows[rows[:, 0] >= 0]
    selected, missed = thin(rows, TRAJECTORY_POINTS)
    if missed.max() > THIN_TOLERANCE:
        worst = int(missed.argmax())
        unit = units[worst] if units else "rad"
        raise GoalRefused(
            Result.INVALID_GOAL,
            f"trajectory.points: got {len(rows)}, allowed {TRAJECTORY_POINTS}; a thinned path "
            f"would deviate by {missed[worst]:.4f} {unit} from the other points ({names[worst]}). "
            "Send fewer points",
        )
    time = goal.goal_time_tolerance
    return TrajectoryGoal(
        selected,
        _tolerances("path_tolerance", goal.path_tolerance, names),
        _tolerances("goal_tolerance", goal.goal_tolerance, names),
        _seconds(time),
        stamp_ns,
        max(ahead, 0.0),
    )


def _check_sizes_and_unsupported_fields(goal: Any, names: Sequence[str]) -> None:
    for field, size, allowed in (
        ("trajectory.points", len(goal.trajectory.points), MAX_POINTS),
        ("path_tolerance", len(goal.path_tolerance), len(names)),
        ("goal_tolerance", len(goal.goal_tolerance), len(names)),
    ):
        if size > allowed:
            raise GoalRefused(Result.INVALID_GOAL, f"{field}: got {size}, allowed up to {allowed}")
    if goal.multi_dof_trajectory.points or goal.component_path_tolerance:
        raise GoalRefused(
            Result.INVALID_GOAL,
            "multi_dof_trajectory, component_path_tolerance: not supported. Remove them",
        )
    if any(len(point.effort) for point in goal.trajectory.points):
        raise GoalRefused(Result.INVALID_GOAL, "effort: not supported. Remove it")


def _joint_order(values: list[str], names: Sequence[str]) -> list[int]:
    values = list(in_full(values, names))
    if fault := joint_name_fault(values, names):
        raise GoalRefused(Result.INVALID_JOINTS, fault)
    return [values.index(name) for name in names]


def _field_in_joint_order(
    points: Sequence[Any], field: str, order: list[int], names: Sequence[str]
) -> Matrix | None:
    """Return one field of all points in joint order, (p, n), or None if all points omit it."""
    lists = [getattr(point, field) for point in points]
    if not any(len(values) for values in lists):
        return None
    for number, values in enumerate(lists):
        if len(values) != len(order):
            raise GoalRefused(
                Result.INVALID_GOAL,
                f"{field}: point {number} has {len(values)} numbers, allowed {len(order)}"
                + ("" if field == "positions" else " in every point, or 0 in all points"),
            )
    # The lists of a message are arrays of C doubles. Joining their bytes is ten times faster than
    # a conversion of lists.
    table = np.frombuffer(b"".join(lists)).reshape(len(lists), -1)[:, order]
    if not np.isfinite(table).all():
        number, joint = np.argwhere(~np.isfinite(table))[0].tolist()
        raise GoalRefused(
            Result.INVALID_GOAL,
            f"{field}: point {number} has {table[number, joint]:g} for {names[joint]}, allowed "
            "finite numbers",
        )
    return table


def _tolerances(field: str, values: Sequence[Any], names: Sequence[str]) -> Vector:
    """Return the position tolerances in joint order; 0 for joints that are not named."""
    tolerances = np.zeros(len(names))
    for item in values:
        [name] = in_full([item.name], names)
        if name not in names:
            raise GoalRefused(Result.INVALID_JOINTS, f"{field}: {item.name} unknown")
        if item.velocity > 0 or item.acceleration > 0:
            raise GoalRefused(
                Result.INVALID_GOAL,
                f"{field}: {item.name}: only positions are monitored. Set velocity and "
                "acceleration to 0",
            )
        tolerances[names.index(name)] = item.position
    return tolerances


def _seconds(duration: Any) -> float:
    return float(duration.sec + duration.nanosec * 1e-9)


def _nanoseconds(stamp: Any) -> int:
    return int(stamp.sec * 1_000_000_000 + stamp.nanosec)
