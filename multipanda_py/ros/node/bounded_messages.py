# SPDX-License-Identifier: Apache-2.0
"""Size limits of requests and goals, which are checked before rclpy converts them to objects.

Without limits, a request of 100000 parameters blocks the interpreter for 1.5 s, and a goal with as
many points for 0.9 s. Heartbeats then stop and every arm holds.

rclpy converts a message by a function that the message class contains. In the classes of this
module, this function first checks the size. A message that is too large arrives empty, with the
attribute ``too_large``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from rclpy.type_support import check_for_type_support
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
    """C structure of a sequence or string of rosidl."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("capacity", ctypes.c_size_t),
    ]  # fmt: skip


class _SequenceField(NamedTuple):
    """Sequence or string within a structure."""

    offset: int  # In the structure [bytes].
    element: MessageLayout
    is_object: bool  # True if each element becomes a Python object.


class MessageLayout(NamedTuple):
    """Memory layout of a message type.

    Attributes:
        size: Size of the structure [bytes].
        inner: Sequences and strings in it and in nested structures.
    """

    size: int
    inner: tuple[_SequenceField, ...] = ()


class MessageSize(NamedTuple):
    """Size of a message.

    Attributes:
        parts: Number of list elements that are strings or messages.
        bytes: Size of all list elements and strings [bytes].
    """

    parts: int
    bytes: int


_NUMBER = MessageLayout(1)
_TEXT = MessageLayout(ctypes.sizeof(_Sequence), (_SequenceField(0, _NUMBER, False),))


@cache
def layout_of(kind: type) -> MessageLayout:
    """Return the layout of a message or request.

    Raises:
        ImportError, AttributeError, KeyError: If the description of the type has an unknown form.
    """
    _, layout = _structure(kind)
    return layout


def size_of(layout: MessageLayout, address: int, limit: MessageSize) -> MessageSize:
    """Return the size of the message at a memory address; counting stops above the limit."""
    parts, size = 0, 0
    for result, count, total in _sequences_in(layout, address, 1, limit):
        parts += count * result.is_object
        size += total
        if parts > limit.parts or size > limit.bytes:
            break
    return MessageSize(parts, size)


def _sequences_in(
    layout: MessageLayout, address: int, number: int, limit: MessageSize
) -> Iterator[tuple[_SequenceField, int, int]]:
    """Yield field, number of elements and their size [bytes] of each sequence, also nested."""
    if not layout.inner:
        return
    memory: Any = (ctypes.c_char * (number * layout.size)).from_address(address)
    words = np.frombuffer(memory, dtype=np.uintp).reshape(number, layout.size // _WORD)
    for inner in layout.inner:
        index = inner.offset // _WORD
        data, sizes = words[:, index], words[:, index + 1]
        count = int(sizes.sum(dtype=object)) if number < 8 else int(sizes.sum())
        yield inner, count, count * inner.element.size
        if inner.element.inner and count <= limit.parts:
            for start, length in zip(data.tolist(), sizes.tolist()):
                if length:
                    yield from _sequences_in(inner.element, start, length, limit)


def _structure(kind: Any) -> tuple[type[ctypes.Structure], MessageLayout]:
    names = list(kind.get_fields_and_field_types())
    slots = list(zip(names, kind.SLOT_TYPES))
    types = [(name, _type(slot, kind, name)) for name, slot in slots]
    fields = [(name, form) for name, (form, _) in types] or [("empty", ctypes.c_uint8)]
    made = type(kind.__name__, (ctypes.Structure,), {"_fields_": fields})
    inner = [
        result._replace(offset=getattr(made, name).offset + result.offset)
        for name, (_, layout) in types
        for result in layout.inner
    ]
    return made, MessageLayout(ctypes.sizeof(made), tuple(inner))


def _type(slot: Any, kind: Any, name: str) -> tuple[Any, MessageLayout]:
    if isinstance(slot, BasicType):
        form = _BASIC[slot.typename]
        return form, MessageLayout(ctypes.sizeof(form))
    if isinstance(slot, (AbstractString, AbstractWString)):
        return _Sequence, _TEXT if isinstance(slot, AbstractString) else _wide()
    if isinstance(slot, NamespacedType):
        return _structure(_nested_class(slot, kind, name))
    if isinstance(slot, Array):
        form, layout = _type(slot.value_type, kind, name)
        inner = [
            result._replace(offset=number * layout.size + result.offset)
            for number in range(slot.size)
            for result in layout.inner
        ]
        return form * slot.size, MessageLayout(layout.size * slot.size, tuple(inner))
    if isinstance(slot, AbstractSequence):
        _, layout = _type(slot.value_type, kind, "")
        is_object = not isinstance(slot.value_type, BasicType)
        return _Sequence, MessageLayout(
            ctypes.sizeof(_Sequence), (_SequenceField(0, layout, is_object),)
        )
    raise KeyError(f"{kind.__name__}: {name}: {type(slot).__name__} is not supported")


def _wide() -> MessageLayout:
    return MessageLayout(ctypes.sizeof(_Sequence), (_SequenceField(0, MessageLayout(2), False),))


def _nested_class(slot: Any, kind: Any, name: str) -> Any:
    if name:  # The class that ``slot`` names may be private.
        return type(getattr(kind(), name))
    return getattr(import_module(".".join(slot.namespaces)), slot.name)


MAX_REQUEST_SIZE = MessageSize(1000, 1 << 18)
"""Maximum size of a request: 1000 strings and messages, 256 KiB."""
MAX_TRAJECTORY_SIZE = MessageSize(6_000, 1 << 22)
"""Maximum size of a trajectory goal: 6000 strings and messages, 4 MiB."""
MAX_MESSAGE_SIZE = 1 << 20
"""Maximum size of a message of a topic [bytes]."""
MAX_TARGET_SIZE = 1 << 16
"""Maximum size of a target in a common message type: a few numbers and joint names [bytes]."""
_CONVERTED = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_callbacks: list[Any] = []
"""References to callbacks of C code, which must outlive their classes."""


def too_large(message: Any) -> str:
    """Return why a request or goal was too large to be converted; empty if it was converted."""
    return str(getattr(message, "too_large", ""))


def bounded_service(kind: Any, limit: MessageSize = MAX_REQUEST_SIZE) -> Any:
    """Return a service type that checks the size of requests before rclpy converts them."""
    return _with_replaced_parts(kind, Request=bounded(kind.Request, limit))


def bounded_action(kind: Any, limit: MessageSize) -> Any:
    """Return an action type that checks the size of goals before rclpy converts them."""
    send = bounded_service(kind.Impl.SendGoalService, limit)
    return _with_replaced_parts(kind, Impl=_with_replaced_parts(kind.Impl, SendGoalService=send))


def _with_replaced_parts(kind: Any, **parts: Any) -> SimpleNamespace:
    public = {name: part for name, part in vars(kind).items() if not name.startswith("_")}
    return SimpleNamespace(**public | parts)


@cache
def bounded(kind: Any, limit: MessageSize) -> Any:
    """Return a subclass of a message class that checks the size of messages before conversion.

    A class without sequences and strings is returned unchanged.
    """
    layout = layout_of(kind)
    if not layout.inner:
        return kind
    check_for_type_support(kind)
    plain = type(kind)._CONVERT_TO_PY
    name = _capsule_name(plain)
    convert = _CONVERTED(_capsule_pointer(plain, name))

    def counted(address: int) -> Any:
        size = size_of(layout, address, limit)
        if size.parts <= limit.parts and size.bytes <= limit.bytes:
            return convert(address)
        return _empty_message(made, address, size, limit)

    function = _CONVERTED(counted)
    pointer = ctypes.cast(function, ctypes.c_void_p).value
    _callbacks.append((function, name))
    own = {"_CONVERT_TO_PY": _new_capsule(pointer, name, None)}
    made: Any = _subclass(kind, type(f"Bounded{kind.__name__}Type", (type(kind),), own))
    return made


def _empty_message(bounded_class: Any, address: int, size: MessageSize, limit: MessageSize) -> Any:
    # A goal request keeps its ID, so that the goal can be aborted.
    message: Any = bounded_class()
    message.too_large = (
        f"got {size.parts} list entries or more, allowed {limit.parts}"
        if size.parts > limit.parts
        else f"got {size.bytes} bytes or more, allowed {limit.bytes}"
    )
    if hasattr(message, "goal_id"):
        message.goal_id.uuid[:] = np.frombuffer(ctypes.string_at(address, 16), dtype=np.uint8)
        kind: Any = type(message.goal)
        message.goal = _class_with_attributes(kind)()
        message.goal.too_large = message.too_large
    return message


@cache
def _class_with_attributes(kind: Any) -> Any:
    return _subclass(kind, type(kind))


def _subclass(kind: Any, meta: Any) -> Any:
    # C functions check the name of the class.
    return meta(kind.__name__, (kind,), {"__module__": kind.__module__})
