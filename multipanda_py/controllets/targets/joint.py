# SPDX-License-Identifier: Apache-2.0
"""Target channels of joints: positions, trajectories, and commands to springs and motors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.planning.trajectory.trajectory import BLEND_TIME, check_between
from multipanda_py.robots.actuated_joints import (
    COMMAND_ALIASES,
    COMMANDS,
    MAX_COMMAND,
    ActuatedJoints,
    OperationMode,
)
from multipanda_py.state import ArmLimits, ArmSnapshot, GateLimits, Vector
from multipanda_py.targets import (
    TRAJECTORY_POINTS,
    ArmTargetRequest,
    Channel,
    Stream,
    finite_numbers,
)


def check_joint(
    q: ArrayLike,
    dq: ArrayLike | None,
    state: ArmSnapshot,
    limits: ArmLimits,
    gate: GateLimits,
    far: bool = False,
    stream: Stream | None = None,
) -> Vector:
    """Check a joint target, and return its positions, then its velocities, (2 n,) [rad, rad/s].

    Args:
        q: Target positions, (n,) [rad]. Continuous joints take the shortest path.
        dq: Target velocities, (n,) [rad/s]; None means zero.
        state: State of the arm.
        limits: Joint limits of the arm.
        gate: Maximum distance of a target from the measured state.
        far: True to accept any target within the joint limits, False to apply the gate.
        stream: Stream of earlier targets; None for a single target. A far target that continues
            the stream is clipped to the gate.

    Raises:
        TargetRejected: If a value is not finite, beyond a joint limit or outside the gate.
    """
    n = limits.n_joints
    target = limits.nearest(finite_numbers(f"{state.name}: q", q, n), state.q)
    rate = np.zeros(n) if dq is None else finite_numbers(f"{state.name}: dq", dq, n)
    step, clipped = target - state.q, None
    furthest = float(np.abs(step).max())
    is_near = lambda last: bool(np.abs(target - last).max() <= gate.joint)  # noqa: E731
    if stream and furthest > gate.joint and not far and stream.continues(is_near):
        clipped = state.q + step * (gate.joint / furthest)
    for joint in range(n):
        path = f"joint {joint + 1} of {state.name}"
        low, high, unit = limits.lower[joint], limits.upper[joint], limits.unit(joint)
        if not low <= target[joint] <= high:
            raise TargetRejected(
                f"{path}: target {in_decimals(target[joint], 4)} {unit} is outside "
                f"[{low:g}, {high:g}]"
            )
        if abs(step[joint]) > gate.joint and clipped is None and not far:
            raise TargetRejected(
                f"{path}: target is {in_decimals(abs(step[joint]), 3)} {unit} from the measured "
                f"position, "
                f"allowed {gate.joint:g} {unit} (gate.joint)"
            )
        if abs(rate[joint]) > limits.velocity[joint]:
            raise TargetRejected(
                f"{path}: target velocity {in_decimals(rate[joint], 3)} {unit}/s is outside "
                f"+-{limits.velocity[joint]:g}"
            )
    if stream:
        stream.accept(target)
    return np.concatenate([target if clipped is None else clipped, rate])


def _check_joint_pair(
    value: tuple[ArrayLike | None, ArrayLike | None], request: ArmTargetRequest
) -> Vector:
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        raise TargetRejected(
            f"{request.state.name}: joint: got {value!r:.60}, allowed a pair (q, dq)"
        )
    q, dq = value
    state, limits, parts = request.state, request.limits, request.joint_fields
    path = f"{state.name}: joint: got"
    if q is not None and "q" not in parts:
        raise TargetRejected(
            f"{path} positions, but the active controllet accepts only velocities"
        )
    if q is None and "dq" not in parts:
        raise TargetRejected(
            f"{path} only velocities, but the active controllet accepts only positions"
        )
    if q is None:
        here = np.clip(state.q, limits.lower, limits.upper)
        return check_joint(here, dq, state, limits, request.gate)
    far, stream = "joint" in request.ungated_channels, request.stream("joint")
    record = check_joint(q, dq, state, limits, request.gate, far, stream)
    rates = record[limits.n_joints :]
    if "dq" not in parts and rates.any():
        raise TargetRejected(
            f"{path} velocities {rates.tolist()} with positions, but the active controllet "
            "plans its velocity. Send velocities of zero or None."
        )
    return record


JOINT = Channel(
    "joint",
    0,
    "joint positions and velocities; the nullspace configuration of a Cartesian controllet",
    check=_check_joint_pair,
    modified_by_features=True,
    message="sensor_msgs/msg/JointState",
    method="set_target(arm, q=..., dq=...)",
    per_joint=2,
)
"""Record: positions (n) [rad] and velocities (n) [rad/s]."""


MAX_END_SPEED = 1e-3
"""Maximum joint speed at the end of a trajectory [rad/s]."""
MAX_TOLERANCE = 7.0
"""Maximum tolerance [rad], above any possible error. A negative tolerance disables the check."""
MAX_DELAY = 10.0
"""Maximum delay of a start [s]. It is sufficient to synchronise arms, and prevents a motion much
later due to unsynchronised clocks."""
MAX_DURATION = 3600.0
"""Maximum duration of a trajectory [s]. A longer one probably has wrong units, such as
nanoseconds."""
MAX_REST_SPEED = 0.02
"""Maximum joint speed of an arm at rest, required for a delayed start [rad/s]."""
MAX_GOAL_TIME = 3600.0
"""Maximum waiting time for the goal tolerance [s]."""


class Trajectory(NamedTuple):
    """Requested trajectory; see ``TargetWriter.follow_trajectory``.

    Attributes:
        points: Time from the start [s], positions, velocities and accelerations of each point,
            (points, 1 + 3 n).
        path_tolerance: Path tolerance [rad]; None for the parameter of the controllet.
        goal_tolerance: Goal tolerance [rad]; None for the parameter of the controllet.
        goal_time: Time to reach the goal tolerance [s]; None for the parameter of the controllet.
        start: Start time in cell time (``ArmSnapshot.time``) [s]; None for an immediate start.
        together: Number of arms of the controllet whose trajectories start in the same cycle.
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
    """Check the points of a trajectory, and return them as a target of channel ``trajectory``.

    Start time and tolerances in the result are zero. Continuous joints take the shortest path to
    the first point.

    Args:
        points: Time [s], positions, velocities and accelerations of each point, (points, 1 + 3 n).
            An empty list requests a stop.
        state: Newest state of the arm.
        limits: Joint limits of the arm.
        gate: Limits of targets.

    Raises:
        TargetRejected: If times, positions or velocities are invalid, the path does not end at
            rest, or the first point of an immediate start is outside the gate.
    """
    n = limits.n_joints
    row_size = 1 + 3 * n
    record = np.zeros(TRAJECTORY.size(n))
    try:
        rows = np.array(points, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise TargetRejected(
            f"{state.name}: trajectory: got {points!r:.60}, allowed a list of points, each a "
            "list of numbers"
        ) from None
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
            f"{TRAJECTORY_POINTS} points with finite numbers"
        )
    if rows[0, 0] < 0 or (np.diff(rows[:, 0]) <= 0).any():
        raise TargetRejected(
            f"{state.name}: trajectory: times must start at 0 s or later, and increase from "
            "point to point"
        )
    if rows[-1, 0] > MAX_DURATION:
        raise TargetRejected(
            f"{state.name}: trajectory: got {rows[-1, 0]:g} s from the start to the last point, "
            f"allowed up to {MAX_DURATION:g} s. Check the unit of the times."
        )
    turned = limits.nearest(rows[0, 1 : 1 + n], state.q) - rows[0, 1 : 1 + n]
    rows[:, 1 : 1 + n] += turned
    for number, row in enumerate(rows):
        q, dq, _ = row[1:].reshape(3, n)
        outside = (q < limits.lower) | (q > limits.upper) | (np.abs(dq) > limits.velocity)
        for joint in np.flatnonzero(outside):
            unit = limits.unit(joint)
            raise TargetRejected(
                f"joint {joint + 1} of {state.name}: point {number} has position "
                f"{in_decimals(q[joint], 4)} {unit} and velocity "
                f"{in_decimals(dq[joint], 3)} {unit}/s, allowed [{limits.lower[joint]:g}, "
                f"{limits.upper[joint]:g}] and +-{limits.velocity[joint]:g}"
            )
    last = rows[-1, 1 + n : 1 + 2 * n]
    if np.abs(last).max() > MAX_END_SPEED:
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
    """Return the start time of a trajectory [s]; 0 for an immediate start.

    Args:
        start: Requested cell time (``ArmSnapshot.time``) [s]; None for an immediate start.
        state: Newest state of the arm.

    Raises:
        TargetRejected: If the start is more than ``MAX_DELAY`` ahead, or ahead while the arm
            moves.
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
    if ahead > 0.0 and np.abs(state.dq).max() > MAX_REST_SPEED:
        raise TargetRejected(
            f"{state.name}: start: a start in {in_decimals(ahead, 3)} s needs an arm at rest, but "
            "the arm moves. Stop it, or start now."
        )
    return float(start)


def check_tolerances(
    path: ArrayLike | None,
    goal: ArrayLike | None,
    goal_time: float | None,
    name: str,
    n_joints: int,
) -> Vector:
    """Check path and goal tolerances [rad] and goal time [s], and return them, (2 n + 1,).

    For 0 or None, the parameter of the controllet applies. A negative number disables a tolerance.

    Args:
        path: Path tolerance, (n,) or one number [rad].
        goal: Goal tolerance, (n,) or one number [rad].
        goal_time: Time to reach the goal tolerance [s].
        name: Name of the arm.
        n_joints: Number of joints n.

    Raises:
        TargetRejected: If a value is not finite or too large, or the number of values is wrong.
    """
    record = np.zeros(2 * n_joints + 1)
    for part, description, value in (
        (record[:n_joints], "path_tolerance", path),
        (record[n_joints:-1], "goal_tolerance", goal),
        (record[-1:], "goal_time", goal_time),
    ):
        try:
            part[:] = 0.0 if value is None else value
        except (TypeError, ValueError, OverflowError):
            raise TargetRejected(
                f"{name}: {description}: got {value!r:.60}, allowed {len(part)} numbers"
            ) from None
    max_value = np.array([MAX_TOLERANCE] * 2 * n_joints + [MAX_GOAL_TIME])
    # The comparison is False for NaN, so NaN is rejected too.
    if not (record <= max_value).all() or np.isinf(record).any():
        raise TargetRejected(
            f"{name}: tolerances: got {record.tolist()}, allowed finite numbers up to "
            f"{MAX_TOLERANCE:g} rad or m, and {MAX_GOAL_TIME:g} s. A negative value disables a "
            "tolerance."
        )
    return record


def _trajectory_record(requested: Trajectory, request: ArmTargetRequest) -> Vector:
    points, path, goal, goal_time, start, together = requested
    record = check_trajectory(points, request.state, request.limits, request.gate)
    record[1:3] = check_start(start, request.state), together
    tolerances = check_tolerances(path, goal, goal_time, request.owner, request.limits.n_joints)
    record[-len(tolerances) :] = tolerances
    return record


TRAJECTORY = Channel(
    "trajectory",
    3 + TRAJECTORY_POINTS + 1,
    "points of a joint trajectory: time, positions, velocities, accelerations",
    check=_trajectory_record,
    message="control_msgs/action/FollowJointTrajectory",
    topic="follow_joint_trajectory",
    method="follow(arm, points)",
    per_joint=3 * TRAJECTORY_POINTS + 2,
    is_scheduled=True,
)
"""Record: number of points (0 to stop), start time (0 for now), number of arms that start
together; t, q, dq and ddq of each point; path (n) and goal tolerances (n) [rad], and goal time
[s]. Tolerances of 0 are those of the controllet, and negative ones are disabled."""


CONFIGURED_MODE = "configured"
"""Value that selects the operation mode of each joint in the cell file instead of a mode name."""
EXTERNAL_TORQUE = "external_torque"
_MEANING = {
    "torque_command": ("Nm", "torque on each link"),
    "link_command": ("rad", "target position of each link for its PID controller"),
    "reference_1": ("rad", "target positions of the first motors"),
    "reference_2": ("rad, m", "target positions of the second motors"),
    "equilibrium_position": ("rad", "equilibrium positions of the springs"),
    "stiffness_preset": ("rad, m", "presets of the spring stiffness"),
    "motor_1_command": ("Nm", "torques of the first motors"),
    "motor_2_command": ("Nm", "torques of the second motors"),
    EXTERNAL_TORQUE: ("Nm", "external torques on the links, in every mode"),
}


def modes_of(joints: ActuatedJoints, mode: str) -> tuple[OperationMode, ...]:
    """Return the operation mode of each actuated joint.

    Args:
        joints: Actuated joints of an arm.
        mode: Name of one mode for all joints, or ``CONFIGURED_MODE`` for those of the cell file.
    """
    names = joints.modes if mode == CONFIGURED_MODE else (mode,) * len(joints.names)
    return tuple(map(OperationMode.from_value, names))


def _check_actuator_command(name: str, values: object, context: ArmTargetRequest) -> Vector:
    """Return n joint values, then 1 for each valid value, (2 n,)."""
    path, joints = f"{context.owner}: {name}", context.actuated
    if joints is None:
        raise TargetRejected(
            f"{path}: the command needs compliant actuators, which the arm does not have"
        )
    at, numbers = _indices_and_values(path, values, joints)
    modes = modes_of(joints, context.parameters().get("mode", CONFIGURED_MODE))
    for index, number in zip(at.tolist(), numbers.tolist()):
        _refuse_command_out_of_range(
            f"{path}: {joints.names[index]}", name, number, index, modes[index], context
        )
    last, n = context.last_record(name), context.limits.n_joints
    record: Vector = np.zeros((2, n)) if last is None else last.reshape(2, n).copy()
    record[:, joints.joint_indices[at]] = numbers, np.ones(len(at))
    return record.reshape(-1)


def _indices_and_values(
    path: str, values: Any, joints: ActuatedJoints
) -> tuple[NDArray[np.intp], Vector]:
    names = joints.names
    if isinstance(values, Mapping):
        unknown = [name for name in values if name not in names]
        if unknown or not values:
            got = f"{unknown[0]!r:.60}" if unknown else "nothing"
            raise TargetRejected(f"{path}: got {got}, allowed joints {', '.join(names)}")
        at = np.array([names.index(name) for name in values])
        return at, finite_numbers(path, list(values.values()), len(at))
    if isinstance(values, Sequence) or np.ndim(values):
        return np.arange(len(names)), finite_numbers(path, values, len(names))
    return np.arange(len(names)), finite_numbers(path, [values] * len(names), len(names))


def _refuse_command_out_of_range(
    path: str, name: str, number: float, index: int, mode: OperationMode, context: ArmTargetRequest
) -> None:
    joints, low, high = context.actuated, -MAX_COMMAND, MAX_COMMAND
    unit = _MEANING[name][0].split(",")[0]
    if joints is None:
        return
    if name != EXTERNAL_TORQUE and name not in mode.commands:
        raise TargetRejected(
            f"{path} is in mode {mode:d} ({mode.name.lower()}), which accepts only "
            f"{' and '.join(mode.commands)}"
        )
    has_second = bool(joints.have_second[index])
    is_pivot = has_second and not joints.are_antagonistic[index]
    if (name == "stiffness_preset" and has_second) or (name == "reference_2" and is_pivot):
        low, high = float(joints.preset_low[index]), float(joints.preset_high[index])
        unit = joints.preset_units[index]
    elif name in ("torque_command", EXTERNAL_TORQUE):
        high = float(context.limits.torque[joints.joint_indices[index]])
        low = -high
    if not low <= number <= high:
        raise TargetRejected(f"{path}: got {number:g}, allowed {low:g} to {high:g} {unit}")
    if name == "equilibrium_position":
        _refuse_far_equilibrium(path, number, index, joints, context)


def _refuse_far_equilibrium(
    path: str, number: float, index: int, joints: ActuatedJoints, context: ArmTargetRequest
) -> None:
    gate, n, joint = context.gate.joint, context.limits.n_joints, int(joints.joint_indices[index])
    # The command must be near one of: measured position, present equilibrium, last command.
    near = [float(context.state.q[joint]), float(context.spring_equilibrium()[index])]
    last = context.last_record("equilibrium_position")
    if last is not None and last[n + joint]:
        near.append(float(last[joint]))
    step = min(abs(number - one) for one in near)
    if not step <= gate:
        raise TargetRejected(
            f"{path}: {number:g} is {step:.3g} {context.limits.unit(joint)} from the position of "
            f"the joint and from its present equilibrium, allowed {gate:g} (gate.joint)"
        )


def _channel(name: str) -> Channel:
    unit, doc = _MEANING[name]
    aliases = [alias for alias, command in COMMAND_ALIASES.items() if command == name]
    return Channel(
        name, 0, doc, unit, check=partial(_check_actuator_command, name), topic=name, per_joint=2,
        method=f"command_actuators(arm, {name}=...)", joint_topics=(name, *aliases),
    )  # fmt: skip


COMMAND_CHANNELS = tuple(_channel(name) for name in COMMANDS)
"""Channels of the commands of all operation modes."""
PUSH_CHANNEL = _channel(EXTERNAL_TORQUE)
"""Channel of external torques, which are not a command of a mode."""
