# SPDX-License-Identifier: Apache-2.0
"""Where the joints are to be, and how fast."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.channel import AskedOfArm, Channel, finite_numbers
from multipanda_py.channels.stream import Stream
from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.limits import ArmLimits, GateLimits
from multipanda_py.state import ArmSnapshot, Vector


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
