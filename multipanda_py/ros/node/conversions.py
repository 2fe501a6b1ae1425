# SPDX-License-Identifier: Apache-2.0
"""Between messages and what the cell understands; refuses what it cannot trust.

Thread: executor; nothing here keeps anything.
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

_ENCAPSULATION = 4
ORDERS = {b"\0\0": ">", b"\0\1": "<"}
"""Byte orders of plain CDR, by its first bytes."""
_HEADS = {order: struct.Struct(f"{order}iII") for order in "<>"}
_DOUBLES = {
    (order, turned): struct.Struct(f"{order}{7 if turned else 6}d")
    for order in "<>"
    for turned in (False, True)
}


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


class StampedNumbers(NamedTuple):
    """A message of a header and doubles as it was sent.

    Attributes:
        stamp_ns: Time of the header [ns].
        frame: Frame of the header.
        numbers: What follows it, in the order of the definition.
    """

    stamp_ns: int
    frame: str
    numbers: list[float]


def write_pose(message: Any, pose: Pose) -> None:
    """Put the numbers of a pose into a geometry_msgs/Pose."""
    place, turn = message.position, message.orientation
    place.x, place.y, place.z = pose.position.tolist()
    turn.x, turn.y, turn.z, turn.w = pose.quaternion_xyzw.tolist()


def read_pose(raw: bytes) -> StampedPose:
    """Decode a serialized geometry_msgs/PoseStamped.

    Raises:
        TargetRejected: If it is cut short, a number is not finite, or the quaternion is
            no unit quaternion.
    """
    stamp_ns, frame, numbers = read_numbers(PoseStamped, ("position", "orientation"), raw)
    return StampedPose(stamp_ns, frame, Pose.from_floats(numbers[:3], numbers[3:]))


def read_numbers(kind: type, parts: tuple[str, str], raw: bytes) -> StampedNumbers:
    """Decode a serialized message of a header and two vectors, without building objects.

    Targets come at up to 1 kHz per arm, and building a tree of message objects costs more
    than everything that is done with it. The layout is CDR: encapsulation (4 bytes), sec,
    nanosec, length and characters of frame_id with a final zero, then doubles at a multiple of 8.
    Any other encapsulation is left to rclpy.

    Args:
        kind: Such as PoseStamped.
        parts: Names of the vectors, three numbers each, or four for an orientation.
        raw: The message.

    Raises:
        TargetRejected: If it is no such message.
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
        raise TargetRejected(f"message: got no readable {kind.__name__} ({error})") from None
    return StampedNumbers(seconds * 1_000_000_000 + nanoseconds, frame, list(numbers))


def _numbers_of(message: Any, parts: tuple[str, str]) -> StampedNumbers:
    """Return the same of a message that rclpy has read."""
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
    unknown = [f"{name:.60}" for name in given if name not in names]
    if len(unknown) > len(names):
        unknown = [*unknown[: len(names)], "others"]
    if not missing and not unknown and len(given) == len(names):
        return ""
    what = "some twice"
    if missing or unknown:
        what = f"{', '.join(missing)} missing" if missing else f"{', '.join(unknown)} unknown"
    return (
        f"got {len(given)} names, allowed {len(names)}: {what}; "
        f"expected {', '.join(names)}, in any order"
    )


def in_full(given: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Return names of an arm's joints as the cell has them, from those without the arm's name.

    Clients of one arm call its joints ``fr3_joint1``, in the arm's namespace.

    Args:
        given: Names, all without one and the same beginning.
        names: Those of the cell.
    """
    if len(given) > len(names):
        return given
    found = [
        [f"{prefix}_{one}" for one in given]
        for name in (names if given else ())
        for prefix in [name.removesuffix(f"_{given[0]}")]
        if prefix != name and {f"{prefix}_{one}" for one in given} <= set(names)
    ]
    return found[0] if len(found) == 1 else given  # of two arms nobody knows which is meant


def read_joints(
    message: JointState, names: Sequence[str]
) -> tuple[list[float] | None, list[float] | None]:
    """Return positions [rad] and velocities [rad/s] in joint order; None where left out.

    Args:
        message: Joints by name, in any order, with the arm's name before them or without.
        names: The names expected, in joint order.

    Raises:
        TargetRejected: If a name is missing, unknown or doubled, the lists differ in length, or
            both are empty.
    """
    given = message.name
    if joint_name_fault(given, names):
        given = in_full(given, names)
    if fault := joint_name_fault(given, names):
        raise TargetRejected(f"name: {fault}")
    order = [given.index(name) for name in names]
    lists = {"position": message.position, "velocity": message.velocity}
    for field, values in lists.items():
        needed = field == "position" and not message.velocity
        if len(values) != len(names) and (len(values) > 0 or needed):
            raise TargetRejected(f"{field}: got {len(values)} numbers for {len(names)} names")
    q, dq = ([values[i] for i in order] if values else None for values in lists.values())
    return q, dq
