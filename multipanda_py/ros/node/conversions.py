# SPDX-License-Identifier: Apache-2.0
"""Conversion between ROS messages and values of the cell, with checks of the input.

Thread: executor; no function keeps state.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from geometry_msgs.msg import PoseStamped
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from multipanda_py.exceptions import TargetRejected
from multipanda_py.pose import Pose

_ENCAPSULATION = 4  # Size of the header before a serialized message [bytes].
ORDERS = {b"\0\0": ">", b"\0\1": "<"}
"""Byte order of plain CDR, by its first two bytes."""
_HEADS = {order: struct.Struct(f"{order}iII") for order in "<>"}
_DOUBLES = {
    (order, turned): struct.Struct(f"{order}{7 if turned else 6}d")
    for order in "<>"
    for turned in (False, True)
}


class StampedPose(NamedTuple):
    """Content of a PoseStamped.

    Attributes:
        stamp_ns: Time of the header [ns].
        frame: Frame of the header.
        pose: Checked pose.
    """

    stamp_ns: int
    frame: str
    pose: Pose


class StampedNumbers(NamedTuple):
    """Content of a message with a header and doubles.

    Attributes:
        stamp_ns: Time of the header [ns].
        frame: Frame of the header.
        numbers: Doubles after the header, in the order of the definition.
    """

    stamp_ns: int
    frame: str
    numbers: list[float]


def write_pose(message: Any, pose: Pose) -> None:
    """Write a pose into a geometry_msgs/Pose."""
    position, orientation = message.position, message.orientation
    position.x, position.y, position.z = pose.position.tolist()
    orientation.x, orientation.y, orientation.z, orientation.w = pose.quaternion_xyzw.tolist()


def read_pose(raw: bytes) -> StampedPose:
    """Decode a serialized geometry_msgs/PoseStamped.

    Raises:
        TargetRejected: If the message is truncated, a number is not finite, or the quaternion is
            not a unit quaternion.
    """
    stamp_ns, frame, numbers = read_numbers(PoseStamped, ("position", "orientation"), raw)
    return StampedPose(stamp_ns, frame, Pose.from_floats(numbers[:3], numbers[3:]))


def read_numbers(kind: type, parts: tuple[str, str], raw: bytes) -> StampedNumbers:
    """Decode a serialized message of a header and two vectors, without message objects.

    Targets arrive at up to 1 kHz per arm, and message objects would cost more than their
    evaluation. The CDR layout is: encapsulation (4 bytes), sec, nanosec, length and characters of
    frame_id with a final zero, then doubles at a multiple of 8. rclpy decodes any other
    encapsulation.

    Args:
        kind: Message class, such as PoseStamped.
        parts: Names of the vectors, with three numbers each, or four for an orientation.
        raw: Serialized message.

    Raises:
        TargetRejected: If ``raw`` is not a valid message of this type.
    """
    order = ORDERS.get(bytes(raw[:2]))
    if order is None:
        return _numbers_of(read_message(kind, raw), parts)
    try:
        seconds, nanoseconds, length = _HEADS[order].unpack_from(raw, _ENCAPSULATION)
        text = _ENCAPSULATION + 12
        frame = raw[text : text + length].removesuffix(b"\0").decode()
        start = _ENCAPSULATION + -(-(12 + length) // 8) * 8
        numbers = _DOUBLES[order, parts[1] == "orientation"].unpack_from(raw, start)
    except (struct.error, UnicodeDecodeError) as error:
        raise TargetRejected(f"message: not a valid {kind.__name__} ({error})") from None
    return StampedNumbers(seconds * 1_000_000_000 + nanoseconds, frame, list(numbers))


def _numbers_of(message: Any, parts: tuple[str, str]) -> StampedNumbers:
    """Return the content of a message that rclpy has decoded."""
    stamp = message.header.stamp
    body = next(
        value
        for name in message.get_fields_and_field_types()
        if hasattr(value := getattr(message, name), parts[0])
    )
    vectors = [getattr(body, part) for part in parts]
    numbers = [
        getattr(vector, axis) for vector in vectors for axis in "xyzw" if hasattr(vector, axis)
    ]
    return StampedNumbers(
        stamp.sec * 1_000_000_000 + stamp.nanosec, message.header.frame_id, numbers
    )


def read_message(kind: type, raw: bytes) -> Any:
    """Decode a serialized message of any other type.

    Raises:
        TargetRejected: If ``raw`` is not a valid message of this type.
    """
    try:
        return deserialize_message(raw, kind)
    except RuntimeError as error:  # RMWError has no public name.
        raise TargetRejected(f"message: not a valid {kind.__name__} ({error})") from None


def joint_name_fault(values: Sequence[str], names: Sequence[str]) -> str:
    """Return how names differ from an arm's joint names, in any order; empty if they match."""
    missing = [name for name in names if name not in values]
    unknown = [f"{name:.60}" for name in values if name not in names]
    if len(unknown) > len(names):
        unknown = [*unknown[: len(names)], "others"]
    if not missing and not unknown and len(values) == len(names):
        return ""
    description = "duplicate names"
    if missing or unknown:
        description = (
            f"{', '.join(missing)} missing" if missing else f"{', '.join(unknown)} unknown"
        )
    return (
        f"got {len(values)} names, allowed {len(names)}: {description}; "
        f"expected {', '.join(names)}, in any order"
    )


def in_full(values: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Add the prefix of the arm to joint names that all lack it; return others unchanged.

    Clients of one arm call its joints ``fr3_joint1``, in the namespace of the arm.

    Args:
        values: Names from a message.
        names: Joint names of the cell.
    """
    if len(values) > len(names):
        return values
    result = [
        [f"{prefix}_{one}" for one in values]
        for name in (names if values else ())
        for prefix in [name.removesuffix(f"_{values[0]}")]
        if prefix != name and {f"{prefix}_{one}" for one in values} <= set(names)
    ]
    return result[0] if len(result) == 1 else values  # The names are ambiguous if two arms match.


def read_joints(
    message: JointState, names: Sequence[str]
) -> tuple[list[float] | None, list[float] | None]:
    """Return positions [rad] and velocities [rad/s] in joint order; None if omitted.

    Args:
        message: Joints by name, in any order, with or without the name of the arm as prefix.
        names: Expected names, in joint order.

    Raises:
        TargetRejected: If a name is missing, unknown or duplicate, the lists differ in length, or
            both are empty.
    """
    value = message.name
    if joint_name_fault(value, names):
        value = in_full(value, names)
    if fault := joint_name_fault(value, names):
        raise TargetRejected(f"name: {fault}")
    order = [value.index(name) for name in names]
    lists = {"position": message.position, "velocity": message.velocity}
    for field, values in lists.items():
        needed = field == "position" and not message.velocity
        if len(values) != len(names) and (len(values) > 0 or needed):
            raise TargetRejected(f"{field}: got {len(values)} numbers for {len(names)} names")
    q, dq = ([values[i] for i in order] if values else None for values in lists.values())
    return q, dq
