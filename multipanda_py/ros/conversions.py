# SPDX-License-Identifier: Apache-2.0
"""Between messages and what the cell understands; refuses what it cannot trust.

Thread: executor; nothing here keeps anything.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from geometry_msgs.msg import TwistStamped, WrenchStamped
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose

_ENCAPSULATION = 4
_LITTLE_ENDIAN = 1


class StampedPose(NamedTuple):
    """A PoseStamped as it was sent.

    Attributes:
        stamp_ns: Time of the header [ns].
        frame: Frame of the header.
        pose: The pose, checked.
    """

    stamp_ns: int
    frame: str
    pose: Pose


def read_pose(raw: bytes) -> StampedPose:
    """Decode a serialized geometry_msgs/PoseStamped.

    Targets come at up to 1 kHz per arm, and building a tree of message objects costs more
    than everything that is done with it. The layout is CDR: encapsulation (4 bytes), sec,
    nanosec, length and characters of frame_id with a final zero, then seven doubles at a
    multiple of 8: x y z of the position, x y z w of the quaternion.

    Raises:
        TargetRejected: If it is cut short, a number is not finite, or the quaternion is
            no unit quaternion.
    """
    order = "<" if len(raw) > 1 and raw[1] == _LITTLE_ENDIAN else ">"
    try:
        seconds, nanoseconds, length = struct.unpack_from(f"{order}iII", raw, _ENCAPSULATION)
        text = _ENCAPSULATION + 12
        frame = raw[text : text + length - 1].decode()
        start = _ENCAPSULATION + -(-(12 + length) // 8) * 8
        x, y, z, *xyzw = struct.unpack_from(f"{order}7d", raw, start)
    except (struct.error, UnicodeDecodeError) as error:
        raise TargetRejected(f"message: got no readable PoseStamped ({error})") from None
    stamp_ns = seconds * 1_000_000_000 + nanoseconds
    return StampedPose(stamp_ns, frame, Pose.from_quaternion((x, y, z), xyzw))


def read_message(kind: type, raw: bytes) -> Any:
    """Decode a serialized message of any other kind.

    Raises:
        TargetRejected: If it is no such message.
    """
    try:
        return deserialize_message(raw, kind)
    except RuntimeError as error:  # RMWError, which has no public name
        raise TargetRejected(f"message: got no readable {kind.__name__} ({error})") from None


def joint_name_fault(given: Sequence[str], names: Sequence[str]) -> str:
    """Say how names differ from those of an arm's joints; nothing if only their order does."""
    missing = [name for name in names if name not in given]
    unknown = [name for name in given if name not in names]
    if not missing and not unknown and len(given) == len(names):
        return ""
    what = "some twice"
    if missing or unknown:
        what = f"{', '.join(missing)} missing" if missing else f"{', '.join(unknown)} unknown"
    return (
        f"got {len(given)} names, allowed {len(names)}: {what}; "
        f"expected {', '.join(names)}, in any order"
    )


def read_joints(
    message: JointState, names: Sequence[str]
) -> tuple[list[float] | None, list[float] | None]:
    """Return positions [rad] and velocities [rad/s] in joint order; None where left out.

    Args:
        message: Joints by name, in any order.
        names: The names expected, in joint order.

    Raises:
        TargetRejected: If a name is missing, unknown or doubled, the lists differ in length, or
            both are empty.
    """
    if fault := joint_name_fault(message.name, names):
        raise TargetRejected(f"name: {fault}")
    order = [message.name.index(name) for name in names]
    lists = {"position": message.position, "velocity": message.velocity}
    for field, values in lists.items():
        needed = field == "position" and not message.velocity
        if len(values) != len(names) and (len(values) > 0 or needed):
            raise TargetRejected(f"{field}: got {len(values)} numbers for {len(names)} names")
    q, dq = ([values[i] for i in order] if values else None for values in lists.values())
    return q, dq


def read_twist(message: TwistStamped) -> list[float]:
    """Return linear [m/s] and angular [rad/s] velocity, in the frame of the header."""
    linear, angular = message.twist.linear, message.twist.angular
    return [linear.x, linear.y, linear.z, angular.x, angular.y, angular.z]


def read_wrench(message: WrenchStamped) -> list[float]:
    """Return force [N] and torque [Nm], in the frame of the header."""
    force, torque = message.wrench.force, message.wrench.torque
    return [force.x, force.y, force.z, torque.x, torque.y, torque.z]
