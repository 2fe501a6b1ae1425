# SPDX-License-Identifier: Apache-2.0
"""Requests and goals that are counted before rclpy makes objects of them.

A request of 100 000 parameters takes rclpy 1.5 s, a goal of 100 000 points 0.9 s. The interpreter
does nothing else meanwhile, so heartbeats stop and every arm holds. rclpy converts a message by
a function that it looks up in the class of the message. The classes made here have a function
that counts first. A message that is too large arrives empty, with the attribute ``too_large``.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from rclpy.type_support import check_for_type_support

from multipanda_py.ros.message_layout import MessageSize, layout_of, size_of

REQUEST = MessageSize(1000, 1 << 18)
"""Maximum size of a request."""
TRAJECTORY = MessageSize(6_000, 1 << 22)
"""Maximum size of a goal that is a trajectory."""
MESSAGE = 1 << 20
"""Maximum size of a message of a topic [bytes]."""
TARGET = 1 << 16
"""Maximum size of a target in a common type: a few numbers and names of joints [bytes]."""
_CONVERTED = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p)
_capsule_name = ctypes.pythonapi.PyCapsule_GetName
_capsule_name.restype, _capsule_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_kept: list[Any] = []
"""Functions that C calls, which must outlive their classes."""


def too_large(message: Any) -> str:
    """Return the reason why a request or goal was not converted, or an empty string."""
    return str(getattr(message, "too_large", ""))


def bounded_service(kind: Any, limit: MessageSize = REQUEST) -> Any:
    """Return a type of a service for an executor, with counted requests.

    Args:
        kind: Type of the service.
        limit: Maximum size of a request.
    """
    return _with(kind, Request=bounded(kind.Request, limit))


def bounded_action(kind: Any, limit: MessageSize) -> Any:
    """Return a type of an action for an action server, with counted goals.

    Args:
        kind: Type of the action.
        limit: Maximum size of a goal.
    """
    send = bounded_service(kind.Impl.SendGoalService, limit)
    return _with(kind, Impl=_with(kind.Impl, SendGoalService=send))


def _with(kind: Any, **parts: Any) -> SimpleNamespace:
    """Return the public attributes of a type, with some of them replaced."""
    public = {name: part for name, part in vars(kind).items() if not name.startswith("_")}
    return SimpleNamespace(**public | parts)


@cache
def bounded(kind: Any, limit: MessageSize) -> Any:
    """Return a subclass of a message's class whose instances rclpy counts before it converts.

    Args:
        kind: Class of the message; returned unchanged if it has neither sequences nor texts.
        limit: Maximum size.
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
        return _refused(made, address, size, limit)

    function = _CONVERTED(counted)
    pointer = ctypes.cast(function, ctypes.c_void_p).value
    _kept.append((function, name))
    own = {"_CONVERT_TO_PY": _new_capsule(pointer, name, None)}
    made: Any = _subclass(kind, type(f"Bounded{kind.__name__}Type", (type(kind),), own))
    return made


def _refused(made: Any, address: int, size: MessageSize, limit: MessageSize) -> Any:
    """Return an empty message with the reason; a goal keeps its identity, its first field."""
    message: Any = made()
    message.too_large = (
        f"got {size.parts} entries of lists or more, allowed {limit.parts}"
        if size.parts > limit.parts
        else f"got {size.bytes} bytes or more, allowed {limit.bytes}"
    )
    if hasattr(message, "goal_id"):
        message.goal_id.uuid[:] = np.frombuffer(ctypes.string_at(address, 16), dtype=np.uint8)
        kind: Any = type(message.goal)
        message.goal = _open_class(kind)()
        message.goal.too_large = message.too_large
    return message


@cache
def _open_class(kind: Any) -> Any:
    """Return a subclass of a message's class whose instances take attributes."""
    return _subclass(kind, type(kind))


def _subclass(kind: Any, meta: Any) -> Any:
    """Return a subclass of the same name, which functions of C check."""
    return meta(kind.__name__, (kind,), {"__module__": kind.__module__})
