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
