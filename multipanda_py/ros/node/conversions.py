# SPDX-License-Identifier: Apache-2.0
"""Conversion between ROS messages and values of the cell, with checks of the input.

Thread: executor; no function keeps state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from multipanda_py.exceptions import (
    ConfigurationError,
    MultipandaError,
    SimulationRejected,
    TargetRejected,
)
from multipanda_py.pose import Pose
from multipanda_py.targets import Channel

WORLD = "world"
"""Frame of all arms and objects of a cell."""
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
        numbers: Doubles after the header, in the order of the message fields.
    """

    stamp_ns: int
    frame: str
    numbers: list[float]


def write_pose(message: Any, pose: Pose) -> None:
    """Write a pose into a geometry_msgs/Pose."""
    position, orientation = message.position, message.orientation
    position.x, position.y, position.z = pose.position.tolist()
    orientation.x, orientation.y, orientation.z, orientation.w = pose.quaternion_xyzw.tolist()


def write_wrench(message: Any, wrench: Sequence[float]) -> None:
    """Write force and torque, (6,) [N, Nm], into a geometry_msgs/Wrench."""
    force, torque = message.force, message.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = wrench


def pose_in_world(frame: str, message: Any) -> Pose:
    """Convert a ``geometry_msgs/Pose`` that must be in the frame of the world.

    Raises:
        SimulationRejected: If ``frame`` is neither ``world`` nor empty.
        TargetRejected: If the message is not a valid pose.
    """
    if frame not in ("", WORLD):
        raise SimulationRejected(f"header.frame_id: got {frame!r:.60}, allowed {WORLD}")
    position, orientation = message.position, message.orientation
    return Pose.from_quaternion(
        (position.x, position.y, position.z),
        (orientation.x, orientation.y, orientation.z, orientation.w),
    )


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

    Args:
        kind: Message class, such as PoseStamped.
        parts: Names of the vectors, with three numbers each, or four for an orientation.
        raw: Serialized message.

    Raises:
        TargetRejected: If ``raw`` is not a valid message of this type.
    """
    # Message objects would be too slow for targets at 1 kHz per arm. The CDR layout is:
    # encapsulation (4 bytes), sec, nanosec, length and characters of frame_id with a final zero,
    # then doubles at a multiple of 8. rclpy decodes any other encapsulation.
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
    """Decode a serialized message of any type by rclpy.

    Raises:
        TargetRejected: If ``raw`` is not a valid message of this type.
    """
    try:
        return deserialize_message(raw, kind)
    except RuntimeError as error:  # rclpy raises RMWError, which has no public name.
        raise TargetRejected(f"message: not a valid {kind.__name__} ({error})") from None


def joint_name_fault(received: Sequence[str], expected: Sequence[str]) -> str:
    """Return a message about missing, unknown or duplicate joint names, or an empty string."""
    missing = [name for name in expected if name not in received]
    unknown = [f"{name:.60}" for name in received if name not in expected]
    if len(unknown) > len(expected):
        unknown = [*unknown[: len(expected)], "others"]
    if not missing and not unknown and len(received) == len(expected):
        return ""
    description = "duplicate names"
    if missing or unknown:
        description = (
            f"{', '.join(missing)} missing" if missing else f"{', '.join(unknown)} unknown"
        )
    return (
        f"got {len(received)} names, allowed {len(expected)}: {description}; "
        f"expected {', '.join(expected)}, in any order"
    )


def in_full(received: Sequence[str], cell_joints: Sequence[str]) -> Sequence[str]:
    """Return joint names with the prefix of their arm, such as ``left_`` for ``fr3_joint1``.

    Names that have the prefix already, or that fit no arm or several arms, are returned unchanged.
    """
    if len(received) > len(cell_joints):
        return received
    result = [
        [f"{prefix}_{one}" for one in received]
        for name in (cell_joints if received else ())
        for prefix in [name.removesuffix(f"_{received[0]}")]
        if prefix != name and {f"{prefix}_{one}" for one in received} <= set(cell_joints)
    ]
    return result[0] if len(result) == 1 else received  # Ambiguous if two arms match.


def read_joints(
    message: JointState, names: Sequence[str]
) -> tuple[list[float] | None, list[float] | None]:
    """Return positions [rad] and velocities [rad/s] in joint order, each None if omitted.

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


class Request(NamedTuple):
    """Target from a message.

    Attributes:
        value: Decoded value, which the channel has yet to check.
        frame: Frame of the header, or empty.
        stamp_ns: Stamp of the header [ns]; None without a header.
    """

    value: Any
    frame: str = ""
    stamp_ns: int | None = None


Reader: TypeAlias = Callable[[bytes, Sequence[str]], Request]
"""Function that decodes a serialized message, given the arm's joint names.

It raises TargetRejected if the message is not valid.
"""


def _pose(raw: bytes, _joints: Sequence[str]) -> Request:
    stamped = read_pose(raw)
    return Request(stamped.pose, stamped.frame, stamped.stamp_ns)


def _numbers(kind: type, parts: tuple[str, str], raw: bytes, _joints: Sequence[str]) -> Request:
    stamped = read_numbers(kind, parts, raw)
    return Request(stamped.numbers, stamped.frame, stamped.stamp_ns)


def _joint_state(raw: bytes, joints: Sequence[str]) -> Request:
    message = read_message(JointState, raw)
    return Request(read_joints(message, joints), stamp_ns=_nanoseconds(message))


def _stamped(
    kind: type, read: Callable[[Any], Any], raw: bytes, _joints: Sequence[str]
) -> Request:
    message = read_message(kind, raw)
    return Request(read(message), message.header.frame_id, _nanoseconds(message))


def _plain(kind: type, read: Callable[[Any], Any], raw: bytes, _joints: Sequence[str]) -> Request:
    return Request(read(read_message(kind, raw)))


NUMBER_TYPE = "std_msgs/msg/Float64"
MESSAGE_READERS: dict[str, tuple[type, Reader]] = {
    "geometry_msgs/msg/PoseStamped": (PoseStamped, _pose),
    "sensor_msgs/msg/JointState": (JointState, _joint_state),
    "geometry_msgs/msg/TwistStamped": (
        TwistStamped,
        partial(_numbers, TwistStamped, ("linear", "angular")),
    ),
    "geometry_msgs/msg/WrenchStamped": (
        WrenchStamped,
        partial(_numbers, WrenchStamped, ("force", "torque")),
    ),
    "std_msgs/msg/Float64MultiArray": (
        Float64MultiArray,
        partial(_plain, Float64MultiArray, lambda message: list(message.data)),
    ),
    NUMBER_TYPE: (Float64, partial(_plain, Float64, lambda message: message.data)),
}
"""Message class and reader, by type name."""

PLAIN_KINDS = frozenset(kind for kind, _ in MESSAGE_READERS.values())
"""Message classes of channels without a ``read`` function."""


def of_one_joint(joint: str) -> tuple[type, Reader]:
    """Return message class and decoder of a topic with one number for one joint."""
    return Float64, partial(_plain, Float64, lambda message: {joint: message.data})


def reader_of(channel: Channel) -> tuple[type, Reader]:
    """Return message class and decoder of the topic of a channel.

    Raises:
        ConfigurationError: If the message type is not installed.
    """
    if channel.read is None:
        return MESSAGE_READERS[channel.message]
    package, _, name = channel.message.split("/")
    try:
        kind: type = getattr(import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"channel {channel.name!r}: message: the type {channel.message} is not installed: "
            f"{error}"
        ) from error
    how = _stamped if hasattr(kind(), "header") else _plain
    return kind, partial(how, kind, partial(_read_with_plugin, channel))


def _read_with_plugin(channel: Channel, message: Any) -> Any:
    try:
        return channel.read(message) if channel.read else None
    except MultipandaError:
        raise
    except Exception as error:  # A plug-in may raise any error.
        raise TargetRejected(
            f"{channel.name}: the channel's read function raised {type(error).__name__}: {error}"
        ) from error


def _nanoseconds(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec * 1_000_000_000 + stamp.nanosec)
