# SPDX-License-Identifier: Apache-2.0
"""Serialise many ROS 2 messages at once.

Strings and array lengths are constant, so that messages of one type differ only in their numbers.
One message is serialised, its bytes are copied, and the numbers of each message are filled in. The
format is OMG CDR, little endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.cycle_record import Field

_FIELDS = {
    "builtin_interfaces/msg/Time": "int32 sec\nuint32 nanosec\n",
    "std_msgs/msg/Header": "builtin_interfaces/Time stamp\nstring frame_id\n",
    "std_msgs/msg/String": "string data\n",
    "geometry_msgs/msg/Point": "float64 x\nfloat64 y\nfloat64 z\n",
    "geometry_msgs/msg/Vector3": "float64 x\nfloat64 y\nfloat64 z\n",
    "geometry_msgs/msg/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n",
    "geometry_msgs/msg/Pose": (
        "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n"
    ),
    "geometry_msgs/msg/Twist": "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n",
    "geometry_msgs/msg/Wrench": "geometry_msgs/Vector3 force\ngeometry_msgs/Vector3 torque\n",
    "geometry_msgs/msg/PoseStamped": "std_msgs/Header header\ngeometry_msgs/Pose pose\n",
    "geometry_msgs/msg/TwistStamped": "std_msgs/Header header\ngeometry_msgs/Twist twist\n",
    "geometry_msgs/msg/WrenchStamped": "std_msgs/Header header\ngeometry_msgs/Wrench wrench\n",
    "sensor_msgs/msg/JointState": (
        "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\n"
        "float64[] effort\n"
    ),
    "rcl_interfaces/msg/Log": (
        "builtin_interfaces/Time stamp\nuint8 level\nstring name\nstring msg\nstring file\n"
        "string function\nuint32 line\n"
    ),
}
_BAR = "=" * 80


def definition(schema: str) -> str:
    """Return the definition of a message type, and of all types that it contains.

    The format is that of the schema encoding ``ros2msg`` in MCAP files.

    Args:
        schema: Name of the type, such as ``sensor_msgs/msg/JointState``.

    Raises:
        KeyError: If this package records no messages of the type.
    """
    parts: dict[str, str] = {}
    _collect(schema, parts)
    first = parts.pop(schema)
    rest = [f"{_BAR}\nMSG: {name.replace('/msg/', '/')}\n{text}" for name, text in parts.items()]
    return "".join([first, *rest])


def record_definition(fields: Sequence[Field], shapes: Sequence[tuple[int, ...]]) -> str:
    """Return a ROS 2 message definition whose serialised messages are the bytes of a record.

    Args:
        fields: Fields of the record, all with 8 bytes per number.
        shapes: Shape of each field; several dimensions are in row-major order.
    """
    lines = []
    for field, shape in zip(fields, shapes):
        count = 1
        for size in shape:
            count *= size
        if not count:  # No arm of the cell has this field.
            continue
        size_text = f"[{count}]" if shape else ""
        kind = "int64" if field.kind == "i8" else "float64"
        unit = f" [{field.unit}]" if field.unit else ""
        lines.append(f"{kind}{size_text} {field.name.lower()}  # {field.doc}{unit}")
    return "\n".join(lines) + "\n"


def _collect(schema: str, parts: dict[str, str]) -> None:
    text = parts[schema] = _FIELDS[schema]
    for line in text.splitlines():
        package, _, name = line.split()[0].removesuffix("[]").partition("/")
        if name and (full := f"{package}/msg/{name}") not in parts:
            _collect(full, parts)


_LITTLE_ENDIAN = bytes([0, 1, 0, 0])


@dataclass(frozen=True)
class Numbers:
    """Successive numbers of one type in a message, which differ from message to message.

    Attributes:
        name: Name of their field in :attr:`Layout.dtype`.
        kind: numpy name of the type.
        shape: Shape; () for one number.
        counted: True for a ROS array without a fixed size, which begins with its number of
            elements.
    """

    name: str
    kind: str = "f8"
    shape: tuple[int, ...] = ()
    counted: bool = False


Part = Numbers | str | tuple[str, ...]
"""Part of a message: numbers, a constant text or constant texts."""
STAMP = (Numbers("sec", "i4"), Numbers("nanosec", "u4"))


def header(frame: str) -> tuple[Part, ...]:
    """Return the parts of a ``std_msgs/Header``: a time stamp, and the constant ``frame``."""
    return (*STAMP, frame)


class Layout:
    """Byte layout of a message type with constant strings.

    Args:
        schema: Name of the type, such as ``sensor_msgs/msg/JointState``.
        parts: Numbers and constant texts of the message, in the order of its fields.

    Attributes:
        dtype: numpy type of a serialised message, with one field per :class:`Numbers`.
        template: Bytes of one message with all numbers zero.
    """

    def __init__(self, schema: str, parts: Sequence[Part]) -> None:
        self.schema = schema
        self._data = bytearray(_LITTLE_ENDIAN)
        fields: dict[str, tuple[Any, int]] = {}
        for part in parts:
            if isinstance(part, str):
                self._text(part)
            elif isinstance(part, tuple):
                self._length(len(part))
                for text in part:
                    self._text(text)
            else:
                kind = np.dtype((part.kind, part.shape))
                if part.counted:
                    self._length(kind.shape[0])
                if kind.itemsize:
                    self._align(kind.base.itemsize)
                fields[part.name] = (kind, len(self._data))
                self._data += bytes(kind.itemsize)
        self.template = bytes(self._data)
        self.dtype = np.dtype(
            {
                "names": list(fields),
                "formats": [kind for kind, _ in fields.values()],
                "offsets": [offset for _, offset in fields.values()],
                "itemsize": len(self._data),
            }
        )

    def _align(self, size: int) -> None:
        # Every value begins at a multiple of its size, counted from the end of the header.
        self._data += bytes(-(len(self._data) - len(_LITTLE_ENDIAN)) % size)

    def _length(self, count: int) -> None:
        self._align(4)
        self._data += struct.pack("<I", count)

    def _text(self, text: str) -> None:
        raw = text.encode() + b"\0"
        self._length(len(raw))
        self._data += raw


def copies(template: bytes, dtype: np.dtype[Any], count: int) -> NDArray[np.void]:
    """Return copies of one serialised message, as an array of records, (count,).

    Args:
        template: Bytes of the message.
        dtype: Type of a record, with the size of the message.
        count: Number of copies.
    """
    raw = np.empty((count, len(template)), np.uint8)
    raw[:] = np.frombuffer(template, np.uint8)
    return raw.view(dtype)[:, 0]
