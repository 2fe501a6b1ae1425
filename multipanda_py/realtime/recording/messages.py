# SPDX-License-Identifier: Apache-2.0
"""ROS 2 messages laid out once, and filled by the thousand.

A message whose strings and lengths do not change has the same bytes in the same places every time,
but for its numbers. So they are laid out once (OMG CDR, little endian, as ROS 2's middleware
writes it: four bytes of encapsulation, then every value at a multiple of its own size, counted
from there), and numpy copies them.
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
    """Return the definition of a type followed by those it is made of, as logs have it.

    Raises:
        KeyError: If no log of ours has such a message.
    """
    parts: dict[str, str] = {}
    _collect(schema, parts)
    first = parts.pop(schema)
    rest = [f"{_BAR}\nMSG: {name.replace('/msg/', '/')}\n{text}" for name, text in parts.items()]
    return "".join([first, *rest])


def record_definition(fields: Sequence[Field], shapes: Sequence[tuple[int, ...]]) -> str:
    """Return the definition of a record of rows: its memory is the message.

    Args:
        fields: All of 8 bytes a number.
        shapes: Of each; several dimensions follow one another row by row.
    """
    lines = []
    for field, shape in zip(fields, shapes):
        count = 1
        for size in shape:
            count *= size
        if not count:  # of what no arm of the cell has
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
    """Numbers that change.

    Attributes:
        name: What they are called in the record.
        kind: numpy's name of the type.
        shape: () for one.
        counted: Whether their number stands before them, as of a ROS array without a size.
    """

    name: str
    kind: str = "f8"
    shape: tuple[int, ...] = ()
    counted: bool = False


Part = Numbers | str | tuple[str, ...]
"""What a message has: numbers, a text or texts that stay as they are."""
STAMP = (Numbers("sec", "i4"), Numbers("nanosec", "u4"))


def header(frame: str) -> tuple[Part, ...]:
    """Return the parts of a ``std_msgs/Header``."""
    return (*STAMP, frame)


class Layout:
    """Where everything stands in a message of one type.

    Args:
        schema: Its type, as ``sensor_msgs/msg/JointState``.
        parts: In the order of its fields.

    Attributes:
        schema: The same.
        dtype: One message as a numpy record with the names of its numbers.
        template: One message with all its numbers zero.
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
        self._data += bytes(-(len(self._data) - len(_LITTLE_ENDIAN)) % size)

    def _length(self, count: int) -> None:
        self._align(4)
        self._data += struct.pack("<I", count)

    def _text(self, text: str) -> None:
        raw = text.encode() + b"\0"
        self._length(len(raw))
        self._data += raw


def copies(template: bytes, dtype: np.dtype[Any], count: int) -> NDArray[np.void]:
    """Return so many records, each with the bytes of the template, (count,)."""
    raw = np.empty((count, len(template)), np.uint8)
    raw[:] = np.frombuffer(template, np.uint8)
    return raw.view(dtype)[:, 0]
