# SPDX-License-Identifier: Apache-2.0
"""Message types of target topics, and their conversion to channel values.

Thread: executor; no function keeps state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray

from multipanda_py.exceptions import ConfigurationError, MultipandaError, TargetRejected
from multipanda_py.ros.node.conversions import read_joints, read_message, read_numbers, read_pose
from multipanda_py.targets import Channel


class Request(NamedTuple):
    """Target from a message.

    Attributes:
        value: Value for the channel's check.
        frame: Frame of the header, or empty.
        stamp_ns: Stamp of the header [ns]; None without a header.
    """

    value: Any
    frame: str = ""
    stamp_ns: int | None = None


Reader: TypeAlias = Callable[[bytes, Sequence[str]], Request]
"""Function of a serialized message and the arm's joint names; raises TargetRejected."""


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
    """Return message class and reader of a topic with one number for one joint."""
    return Float64, partial(_plain, Float64, lambda message: {joint: message.data})


def reader_of(channel: Channel) -> tuple[type, Reader]:
    """Return message class and reader of a channel.

    Raises:
        ConfigurationError: If the message type of a channel with a ``read`` function is not
            installed.
    """
    if channel.read is None:
        return MESSAGE_READERS[channel.message]
    package, _, name = channel.message.split("/")
    try:
        kind: type = getattr(import_module(f"{package}.msg"), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"channel {channel.name!r}: message: got {channel.message}, but this type is not "
            f"installed: {error}"
        ) from error
    how = _stamped if hasattr(kind(), "header") else _plain
    return kind, partial(how, kind, partial(_read_by, channel))


def _read_by(channel: Channel, message: Any) -> Any:
    """Return the value that the ``read`` function of a channel returns."""
    try:
        return channel.read(message) if channel.read else None
    except MultipandaError:
        raise
    except Exception as error:  # A plug-in may raise any error.
        raise TargetRejected(
            f"{channel.name}: its read raised {type(error).__name__}: {error}"
        ) from error


def _nanoseconds(message: Any) -> int:
    stamp = message.header.stamp
    return int(stamp.sec * 1_000_000_000 + stamp.nanosec)
