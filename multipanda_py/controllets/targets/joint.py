# SPDX-License-Identifier: Apache-2.0
"""A path in time: within limits at and between its points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.planning.trajectory.trajectory import BLEND_TIME, check_between
from multipanda_py.state import ArmLimits, ArmSnapshot, GateLimits, Vector
from multipanda_py.targets import TRAJECTORY_POINTS, AskedOfArm, Channel, Stream, finite_numbers


def check_joint(
    q: ArrayLike,
    dq: ArrayLike | None,
    state: ArmSnapshot,
    limits: ArmLimits,
    gate: GateLimits,
    far: bool = False,
    stream: Stream | None = None,
) -> Vector:
    """Return the record of channel ``joint`` for a target within limits and the gate.

    Args:
        q: Positions, (n,) [rad]; joints that turn without end go the shortest way.
        dq: Velocities, (n,) [rad/s]; None is zero.
        state: Of the arm.
        limits: Of its joints.
        gate: How far a target may be.
        far: Whether it may be anywhere within the limits.
        stream: One that it may go on with; positions are clipped to the gate then.

    Raises:
        TargetRejected: If a number is not finite, out of limits or too far away.
    """
    n = limits.n_joints
    target = limits.nearest(finite_numbers(f"{state.name}: q", q, n), state.q)
    rate = np.zeros(n) if dq is None else finite_numbers(f"{state.name}: dq", dq, n)
    step, clipped = target - state.q, None
    furthest = float(np.abs(step).max())
    is_near = lambda last: bool(np.abs(target - last).max() <= gate.joint)  # noqa: E731
    if stream and furthest > gate.joint and not far and stream.goes_on(is_near):
        clipped = state.q + step * (gate.joint / furthest)
    for joint in range(n):
        where = f"joint {joint + 1} of {state.name}"
        low, high, unit = limits.lower[joint], limits.upper[joint], limits.unit(joint)
        if not low <= target[joint] <= high:
            raise TargetRejected(
                f"{where}: target {in_decimals(target[joint], 4)} {unit} is outside "
                f"[{low:g}, {high:g}]"
            )
        if abs(step[joint]) > gate.joint and clipped is None and not far:
            raise TargetRejected(
                f"{where}: target is {in_decimals(abs(step[joint]), 3)} {unit} from the measured "
                f"position, "
                f"allowed {gate.joint:g} {unit} (gate.joint)"
            )
        if abs(rate[joint]) > limits.velocity[joint]:
            raise TargetRejected(
                f"{where}: target velocity {in_decimals(rate[joint], 3)} {unit}/s is outside "
                f"+-{limits.velocity[joint]:g}"
            )
    if stream:
        stream.asked(target)
    return np.concatenate([target if clipped is None else clipped, rate])


def _joint_record(value: tuple[ArrayLike | None, ArrayLike | None], asked: AskedOfArm) -> Vector:
    """Take positions and velocities, either of which may be left out."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise TargetRejected(f"{asked.state.name}: joint: got {value!r:.60}, allowed (q, dq)")
    q, dq = value
    state, limits, parts = asked.state, asked.limits, asked.joint_parts
    where = f"{state.name}: joint: got"
    if q is not None and "q" not in parts:
        raise TargetRejected(
            f"{where} positions, allowed velocities alone: the active law would not go there"
        )
    if q is None and "dq" not in parts:
        raise TargetRejected(f"{where} velocities alone, allowed positions for the active law")
    if q is None:
        here = np.clip(state.q, limits.lower, limits.upper)
        return check_joint(here, dq, state, limits, asked.gate)
    far, stream = "joint" in asked.far, asked.stream("joint")
    record = check_joint(q, dq, state, limits, asked.gate, far, stream)
    rates = record[limits.n_joints :]
    if "dq" not in parts and rates.any():
        raise TargetRejected(
            f"{where} velocities {rates.tolist()} beside positions, allowed none or zeros: the "
            "active law plans its own"
        )
    return record


JOINT = Channel(
    "joint",
    0,
    "joint positions and velocities; the preferred posture of a Cartesian law",
    check=_joint_record,
    reshaped=True,
    message="sensor_msgs/msg/JointState",
    method="set_target(arm, q=..., dq=...)",
    per_joint=2,
)
"""Positions (n) [rad] and velocities (n) [rad/s]."""


REST = 1e-3
"""Fastest that a joint may be at the end of a trajectory [rad/s]."""
MAX_TOLERANCE = 7.0
"""Largest tolerance [rad]; no joint can be further off, and a negative one means none."""
MAX_DELAY = 10.0
"""How long after its arrival a motion may begin [s]: enough to start arms together; an arm that
moves an hour later because two clocks differ is a danger."""
MAX_DURATION = 3600.0
"""Longest trajectory [s]; a longer one is a mistake in its times, such as nanoseconds for
seconds, and would have the arm for ever."""
STILL = 0.02
"""Fastest joint of an arm that begins to move later: it has to rest until then [rad/s]."""
MAX_GOAL_TIME = 3600.0
"""Longest wait for the goal [s]."""


class Trajectory(NamedTuple):
    """A trajectory as it is asked for; see :meth:`.TargetWriter.follow`.

    Attributes:
        points: (p, 1 + 3 n): time from now [s], positions, velocities, accelerations.
        path_tolerance: [rad], None for the law's own.
        goal_tolerance: [rad], likewise.
        goal_time: [s], likewise.
        start: Time of the controlled world at which it begins [s]; None for at once.
        together: How many arms of the law begin with it.
    """

    points: ArrayLike
    path_tolerance: ArrayLike | None = None
    goal_tolerance: ArrayLike | None = None
    goal_time: float | None = None
    start: float | None = None
    together: int = 1


def check_trajectory(
    points: ArrayLike, state: ArmSnapshot, limits: ArmLimits, gate: GateLimits
) -> Vector:
    """Return the record of channel ``trajectory``; no points at all ask for a stop.

    Joints that turn without end go the shortest way to the first point, and from there on as
    many turns as the points say.

    Raises:
        TargetRejected: If times do not increase, or take too long, the path leaves the limits at
            or between the points, it does not end at rest, or a first point that comes at once
            is far.
    """
    n = limits.n_joints
    row_size = 1 + 3 * n
    record = np.zeros(TRAJECTORY.size(n))
    try:
        rows = np.array(points, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(f"{state.name}: trajectory: got {points!r:.60}") from None
    if rows.size == 0:
        return record
    if rows.ndim != 2 or rows.shape[1] != row_size:
        raise TargetRejected(
            f"{state.name}: trajectory: got shape {rows.shape}, allowed (points, {row_size}): "
            f"time, then q, dq and ddq of {n} joints"
        )
    if not 1 <= len(rows) <= TRAJECTORY_POINTS or not np.isfinite(rows).all():
        raise TargetRejected(
            f"{state.name}: trajectory: got {len(rows)} points, allowed 1 to "
            f"{TRAJECTORY_POINTS}, all finite"
        )
    if rows[0, 0] < 0 or (np.diff(rows[:, 0]) <= 0).any():
        raise TargetRejected(f"{state.name}: trajectory: times must start at 0 or later and grow")
    if rows[-1, 0] > MAX_DURATION:
        raise TargetRejected(
            f"{state.name}: trajectory: got {rows[-1, 0]:g} s from the start to the last point, "
            f"allowed {MAX_DURATION:g} s"
        )
    turned = limits.nearest(rows[0, 1 : 1 + n], state.q) - rows[0, 1 : 1 + n]
    rows[:, 1 : 1 + n] += turned
    for number, row in enumerate(rows):
        q, dq, _ = row[1:].reshape(3, n)
        outside = (q < limits.lower) | (q > limits.upper) | (np.abs(dq) > limits.velocity)
        for joint in np.flatnonzero(outside):
            unit = limits.unit(joint)
            raise TargetRejected(
                f"joint {joint + 1} of {state.name}: point {number} has "
                f"{in_decimals(q[joint], 4)} {unit} and "
                f"{in_decimals(dq[joint], 3)} {unit}/s, allowed [{limits.lower[joint]:g}, "
                f"{limits.upper[joint]:g}] and +-{limits.velocity[joint]:g}"
            )
    last = rows[-1, 1 + n : 1 + 2 * n]
    if np.abs(last).max() > REST:
        raise TargetRejected(
            f"{state.name}: trajectory: got velocity {last.tolist()} at the last point, allowed 0"
        )
    if rows[0, 0] < BLEND_TIME:
        check_joint(rows[0, 1 : 1 + n], rows[0, 1 + n : 1 + 2 * n], state, limits, gate)
        check_between(rows, state.name, limits)
    else:
        here = np.concatenate([[0.0], state.q, state.dq, np.zeros(n)])
        check_between(np.vstack([here, rows]), state.name, limits)
    record[0] = len(rows)
    record[3 : 3 + rows.size] = rows.reshape(-1)
    return record


def check_start(start: float | None, state: ArmSnapshot) -> float:
    """Return when a trajectory begins, 0 for at once [s].

    Raises:
        TargetRejected: If that is too far away, or the arm moves until then.
    """
    if start is None:
        return 0.0
    try:
        ahead = float(start) - state.time
    except (TypeError, ValueError, OverflowError):
        ahead = np.nan
    if not ahead <= MAX_DELAY or np.isinf(ahead):
        raise TargetRejected(
            f"{state.name}: start: got {start!r:.60}, allowed a time up to "
            f"{in_decimals(state.time + MAX_DELAY, 3)} s, {MAX_DELAY:g} s from now"
        )
    if ahead > 0.0 and np.abs(state.dq).max() > STILL:
        raise TargetRejected(
            f"{state.name}: start: got one in {in_decimals(ahead, 3)} s, and the arm moves; "
            f"allowed at rest, "
            "or a start at once"
        )
    return float(start)


def check_tolerances(
    path: ArrayLike | None,
    goal: ArrayLike | None,
    goal_time: float | None,
    name: str,
    n_joints: int,
) -> Vector:
    """Return the end of the record of channel ``trajectory``, (2 n + 1,).

    Args:
        path: Largest error on the way, (n,) or one number [rad]; 0 as the law has it, negative
            for none.
        goal: Largest error at the end, likewise.
        goal_time: Time after the end to come within that [s], likewise.
        name: Of the arm.
        n_joints: Number of its joints, n.

    Raises:
        TargetRejected: If a number is not finite, or their count is not right.
    """
    record = np.zeros(2 * n_joints + 1)
    for part, what, value in (
        (record[:n_joints], "path_tolerance", path),
        (record[n_joints:-1], "goal_tolerance", goal),
        (record[-1:], "goal_time", goal_time),
    ):
        try:
            part[:] = 0.0 if value is None else value
        except (TypeError, ValueError, OverflowError):
            raise TargetRejected(
                f"{name}: {what}: got {value!r:.60}, allowed {len(part)} numbers"
            ) from None
    most = np.array([MAX_TOLERANCE] * 2 * n_joints + [MAX_GOAL_TIME])
    if not (record <= most).all() or np.isinf(record).any():  # NaN is not less than anything
        raise TargetRejected(
            f"{name}: tolerances: got {record.tolist()}, allowed finite numbers up to "
            f"{MAX_TOLERANCE:g} rad, or m, and {MAX_GOAL_TIME:g} s; negative for none"
        )
    return record


def _trajectory_record(asked_for: Trajectory, asked: AskedOfArm) -> Vector:
    points, path, goal, goal_time, start, together = asked_for
    record = check_trajectory(points, asked.state, asked.limits, asked.gate)
    record[1:3] = check_start(start, asked.state), together
    tolerances = check_tolerances(path, goal, goal_time, asked.who, asked.limits.n_joints)
    record[-len(tolerances) :] = tolerances
    return record


TRAJECTORY = Channel(
    "trajectory",
    3 + TRAJECTORY_POINTS + 1,
    "points in time: positions, velocities, accelerations",
    check=_trajectory_record,
    message="control_msgs/action/FollowJointTrajectory",
    topic="follow_joint_trajectory",
    method="follow(arm, points)",
    per_joint=3 * TRAJECTORY_POINTS + 2,
    later=True,
)
"""Number of points, 0 to stop; when it begins, 0 for at once, and how many arms with it; t, q,
dq, ddq of each point; then tolerances of the path (n) and of the
goal (n) [rad], and time to come within the latter [s]: 0 as the law's, negative none."""
