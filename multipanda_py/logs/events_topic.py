# SPDX-License-Identifier: Apache-2.0
"""What a loop reports, as messages of a log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multipanda_py.logs.cdr import Layout, Numbers, Part
from multipanda_py.logs.definitions import definition
from multipanda_py.loop.events import Event, LoopEvent

EVENTS = "/events"
SCHEMA = "rcl_interfaces/msg/Log"
EVENTS_TOPIC = (EVENTS, SCHEMA, definition(SCHEMA))
_INFO, _WARN, _ERROR = 20, 30, 40


@dataclass(frozen=True)
class EventMessage:
    """A message of the topic of events.

    Attributes:
        time: Since the epoch [ns].
        data: The message.
    """

    time: int
    data: bytes


def event_message(event: LoopEvent, time: int) -> EventMessage:
    """Return an event as a ``rcl_interfaces/Log``: ``name`` is the arm, ``function`` the kind.

    Args:
        event: Of a loop.
        time: Since the epoch [ns].
    """
    level = _ERROR if event.event.is_fault else _WARN
    if event.event is Event.NOTICE or event.event.is_routine:
        level = _INFO
    kind = event.event.name.lower()
    parts: list[Part] = [
        Numbers("sec", "i4"), Numbers("nanosec", "u4"), Numbers("level", "u1"),
        event.arm, event.text, event.controllet, kind, Numbers("line", "u4"),
    ]  # fmt: skip
    layout = Layout(SCHEMA, parts)
    data = np.frombuffer(bytearray(layout.template), layout.dtype)
    data["sec"], data["nanosec"] = divmod(time, 1_000_000_000)
    data["level"] = level
    return EventMessage(time, data.tobytes())
