# SPDX-License-Identifier: Apache-2.0
"""Size of a message in its C structure, from its generated description.

rosidl stores a message as a C structure, with fields in order and aligned as in C. Texts and
sequences are pointer, size and capacity.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from rosidl_parser.definition import (
    AbstractSequence,
    AbstractString,
    AbstractWString,
    Array,
    BasicType,
    NamespacedType,
)

_BASIC: dict[str, Any] = {
    "boolean": ctypes.c_bool, "octet": ctypes.c_uint8, "char": ctypes.c_uint8,
    "wchar": ctypes.c_uint16, "float": ctypes.c_float, "double": ctypes.c_double,
    "long double": ctypes.c_longdouble,
    "int8": ctypes.c_int8, "uint8": ctypes.c_uint8, "int16": ctypes.c_int16,
    "uint16": ctypes.c_uint16, "int32": ctypes.c_int32, "uint32": ctypes.c_uint32,
    "int64": ctypes.c_int64, "uint64": ctypes.c_uint64,
}  # fmt: skip
_WORD = ctypes.sizeof(ctypes.c_size_t)


class _Sequence(ctypes.Structure):
    """Sequence or text of rosidl."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
    ]  # fmt: skip


class _Inner(NamedTuple):
    """Sequence or text within a structure.

    Attributes:
        offset: Offset in the structure [bytes].
        element: Layout of its elements.
        is_object: Whether each element becomes a Python object.
    """

    offset: int
    element: MessageLayout
    is_object: bool


class MessageLayout(NamedTuple):
    """Layout of a message type.

    Attributes:
        size: Size of the structure [bytes].
        inner: Sequences and texts in it and in nested structures.
    """

    size: int
    inner: tuple[_Inner, ...] = ()


class MessageSize(NamedTuple):
    """Size of a message.

    Attributes:
        parts: Number of elements of sequences that are texts or messages.
        bytes: Size of all elements and texts [bytes].
    """

    parts: int
    bytes: int


_NUMBER = MessageLayout(1)
_TEXT = MessageLayout(ctypes.sizeof(_Sequence), (_Inner(0, _NUMBER, False),))


@cache
def layout_of(kind: type) -> MessageLayout:
    """Return the layout of a message, or of a request.

    Raises:
        ImportError, AttributeError, KeyError: If its description has an unknown form.
    """
    _, layout = _structure(kind)
    return layout


def size_of(layout: MessageLayout, address: int, limit: MessageSize) -> MessageSize:
    """Return the size of a message.

    Args:
        layout: Layout of its type.
        address: Address of the structure.
        limit: Size beyond which counting stops.
    """
    parts, size = 0, 0
    for found, count, total in _counts(layout, address, 1, limit):
        parts += count * found.is_object
        size += total
        if parts > limit.parts or size > limit.bytes:
            break
    return MessageSize(parts, size)


def _counts(
    layout: MessageLayout, address: int, number: int, limit: MessageSize
) -> Iterator[tuple[_Inner, int, int]]:
    """Yield sequences in an array of structures: sequence, number of elements and their bytes."""
    if not layout.inner:
        return
    memory: Any = (ctypes.c_char * (number * layout.size)).from_address(address)
    words = np.frombuffer(memory, dtype=np.uintp).reshape(number, layout.size // _WORD)
    for inner in layout.inner:
        place = inner.offset // _WORD
        data, sizes = words[:, place], words[:, place + 1]
        count = int(sizes.sum(dtype=object)) if number < 8 else int(sizes.sum())
        yield inner, count, count * inner.element.size
        if inner.element.inner and count <= limit.parts:
            for start, length in zip(data.tolist(), sizes.tolist()):
                if length:
                    yield from _counts(inner.element, start, length, limit)


def _structure(kind: Any) -> tuple[type[ctypes.Structure], MessageLayout]:
    """Return the structure of a message, and its layout."""
    names = list(kind.get_fields_and_field_types())
    slots = list(zip(names, kind.SLOT_TYPES))
    types = [(name, _type(slot, kind, name)) for name, slot in slots]
    fields = [(name, form) for name, (form, _) in types] or [("empty", ctypes.c_uint8)]
    made = type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})
    inner = [
        found._replace(offset=getattr(made, name).offset + found.offset)
        for name, (_, layout) in types
        for found in layout.inner
    ]
    return made, MessageLayout(ctypes.sizeof(made), tuple(inner))


def _type(slot: Any, kind: Any, name: str) -> tuple[Any, MessageLayout]:
    """Return the C type of a field of ``kind``, and its layout."""
    if isinstance(slot, BasicType):
        form = _BASIC[slot.typename]
        return form, MessageLayout(ctypes.sizeof(form))
    if isinstance(slot, (AbstractString, AbstractWString)):
        return _Sequence, _TEXT if isinstance(slot, AbstractString) else _wide()
    if isinstance(slot, NamespacedType):
        return _structure(_class_of(slot, kind, name))
    if isinstance(slot, Array):
        form, layout = _type(slot.value_type, kind, name)
        inner = [
            found._replace(offset=number * layout.size + found.offset)
            for number in range(slot.size)
            for found in layout.inner
        ]
        return form * slot.size, MessageLayout(layout.size * slot.size, tuple(inner))
    if isinstance(slot, AbstractSequence):
        _, layout = _type(slot.value_type, kind, "")
        is_object = not isinstance(slot.value_type, BasicType)
        return _Sequence, MessageLayout(ctypes.sizeof(_Sequence), (_Inner(0, layout, is_object),))
    raise KeyError(f"{kind.__name__}: {name}: {type(slot).__name__}")


def _wide() -> MessageLayout:
    return MessageLayout(ctypes.sizeof(_Sequence), (_Inner(0, MessageLayout(2), False),))


def _class_of(slot: Any, kind: Any, name: str) -> Any:
    """Return the class of a nested message; a field gives classes that no public module has."""
    if name:
        return type(getattr(kind(), name))
    return getattr(import_module(".".join(slot.namespaces)), slot.name)
