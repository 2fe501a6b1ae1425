# SPDX-License-Identifier: Apache-2.0
"""Where the tool is to be."""

from __future__ import annotations

from functools import partial

from multipanda_py.channel import HERE, AskedOfArm, Channel
from multipanda_py.channels.stream import Stream
from multipanda_py.exceptions import TargetRejected, in_decimals
from multipanda_py.limits import GateLimits
from multipanda_py.pose import Pose
from multipanda_py.state import ArmSnapshot, Vector


def check_pose(
    pose_ee_in_base: Pose, state: ArmSnapshot, gate: GateLimits, stream: Stream | None = None
) -> Vector:
    """Return the record of channel ``pose`` for a target near the measured pose.

    Args:
        pose_ee_in_base: The target.
        state: Of the arm.
        gate: How far it may be from the measured pose.
        stream: One that it may go on with; it is clipped to the gate then.

    Raises:
        TargetRejected: If the step from the measured pose is larger than the gate, in a jump.
    """
    distance, angle = pose_ee_in_base.distance_from(
        state.position_ee_in_base, state.rotation_ee_in_base
    )
    is_far = distance > gate.position or angle > gate.rotation
    if is_far and stream and stream.goes_on(partial(_is_near, pose_ee_in_base, gate)):
        stream.asked(pose_ee_in_base)
        pose_ee_in_base = pose_ee_in_base.clipped(
            state.position_ee_in_base, state.rotation_ee_in_base, gate.position, gate.rotation
        )
        return pose_ee_in_base.record
    if distance > gate.position:
        raise TargetRejected(
            f"{state.name}: target is {in_decimals(distance, 3)} m from the measured pose, "
            f"allowed {gate.position:g} m (gate.position)"
        )
    if angle > gate.rotation:
        raise TargetRejected(
            f"{state.name}: target is turned {angle:.3f} rad from the measured pose, allowed "
            f"{gate.rotation:g} rad (gate.rotation)"
        )
    if stream:
        stream.asked(pose_ee_in_base)
    return pose_ee_in_base.record


def _is_near(pose: Pose, gate: GateLimits, other: Pose) -> bool:
    distance, angle = pose.distance(other)
    return distance <= gate.position and angle <= gate.rotation


def _pose_record(pose: Pose, asked: AskedOfArm) -> Vector:
    if not isinstance(pose, Pose):
        raise TargetRejected(f"{asked.state.name}: pose: got {pose!r:.60}, allowed a Pose")
    placed = pose if asked.frame is HERE else asked.frame @ pose
    return check_pose(placed, asked.state, asked.gate, asked.stream("pose"))


POSE = Channel(
    "pose",
    12,
    "pose of the tool, in the arm's base unless a frame is named",
    check=_pose_record,
    reshaped=True,
    message="geometry_msgs/msg/PoseStamped",
    method="set_target(arm, pose, frame=...)",
)
"""Position (3) [m] and rotation matrix row by row (9) of the tool in the arm's base."""
