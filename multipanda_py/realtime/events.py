# SPDX-License-Identifier: Apache-2.0
"""Ring buffer of loop events in shared memory, with one writer and any number of readers."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray


class Event(IntEnum):
    """Kind of event. Kinds from ``NON_FINITE_TORQUE`` on latch a fault on the arm."""

    FORCE_NO_LONGER_MISSING = -8
    FORCE_MISSING = -7
    LOST = -6
    HOLDS = -5
    SWITCHED = -4
    TARE_REFUSED = -3
    TARED = -2
    HANDED_OVER = -1
    NONE = 0
    NOTICE = 1
    SWITCH_FAILED = 2
    TARGET_STALE = 3
    TARGET_INVALID = 4
    CLIENT_SILENT = 5
    CLIENT_GONE = 6
    RECOVERED = 7
    SETTINGS_APPLIED = 8
    SETTINGS_REFUSED = 9
    NON_FINITE_TORQUE = 10
    CONTROLLET_ERROR = 11
    POSITION_LIMIT = 12
    VELOCITY_LIMIT = 13
    NON_FINITE_STATE = 14
    BACKEND_ERROR = 15
    ARM_STOPPED = 16
    NON_FINITE_COMMAND = 17
    COMMAND_JUMP = 18

    @property
    def is_routine(self) -> bool:
        """True if the event only confirms that a request was executed."""
        return self in (
            Event.SWITCHED, Event.HANDED_OVER, Event.RECOVERED, Event.SETTINGS_APPLIED,
            Event.TARED, Event.FORCE_NO_LONGER_MISSING,
        )  # fmt: skip

    @property
    def ends_laws(self) -> bool:
        """True if the event can end active controllets."""
        return self.is_fault or self in (
            Event.SWITCHED, Event.HOLDS, Event.CLIENT_SILENT, Event.CLIENT_GONE
        )  # fmt: skip

    @property
    def permits_hold(self) -> bool:
        """True if hold continues to compute torques after this fault."""
        return self in (Event.POSITION_LIMIT, Event.VELOCITY_LIMIT, Event.ARM_STOPPED)

    @property
    def takes_torque(self) -> bool:
        """True for a fault under which the arm possibly does not execute its commands."""
        return self in (Event.NON_FINITE_STATE, Event.BACKEND_ERROR, Event.ARM_STOPPED)

    @property
    def is_fault(self) -> bool:
        """True if the event latches a fault on its arm, which stays until a recovery."""
        return self >= Event.NON_FINITE_TORQUE


@dataclass(frozen=True)
class LoopEvent:
    """One event of the loop.

    Attributes:
        event: Kind of event.
        time_ns: Time, CLOCK_MONOTONIC; virtual time of the cycle with placement inline [ns].
        arm: Name of the arm; empty if the event concerns no single arm.
        controllet: Name of the controllet instance; empty if the event concerns none.
        text: Description.
    """

    event: Event
    time_ns: int
    arm: str
    controllet: str
    text: str

    def __str__(self) -> str:
        path = ", ".join(part for part in (self.arm, self.controllet) if part)
        return f"{self.event.name.lower()}{f' ({path})' if path else ''}: {self.text}"


EVENT_CAPACITY = 256
"""Number of events in the ring. A switch makes one per arm, and readers may be late."""
_TEXT_SIZE = 480  # Maximum size of the text of an event [bytes].
EVENT_DTYPE = np.dtype(
    [
        ("event", "i8"),
        ("time_ns", "i8"),
        ("arm", "i8"),
        ("controllet", "i8"),
        ("text", f"S{_TEXT_SIZE}"),
    ]
)


class EventRing:
    """Ring buffer of loop events in shared memory.

    Args:
        memory: Shared memory.
        start: Offset of the ring in the memory [bytes].
        count: View of the number of events so far, which is in the same memory, (1,).
        arms: Names of the arms.
        controllets: Names of the instances.
    """

    def __init__(
        self,
        memory: mmap.mmap,
        start: int,
        count: memoryview,
        arms: Sequence[str],
        controllets: Sequence[str],
    ) -> None:
        self._count, self._arms, self._controllets = count, arms, controllets
        self._events: NDArray[np.void] = np.frombuffer(memory, EVENT_DTYPE, EVENT_CAPACITY, start)

    @property
    def count(self) -> int:
        """Number of events so far. Thread: any."""
        return int(self._count[0])

    def append(self, event: Event, time_ns: int, arm: int, controllet: int, text: str) -> None:
        """Append an event. Do not call this in every cycle. Thread: the only writer.

        Args:
            event: Kind of the event.
            time_ns: Time of the event [ns].
            arm: Index of its arm; -1 for none.
            controllet: Index of its controllet instance; -1 for none.
            text: Description, stored as one line.
        """
        count = self._count[0]
        raw = " ".join(text.split()).encode("utf-8", "replace")[:_TEXT_SIZE]
        self._events[count % EVENT_CAPACITY] = (int(event), time_ns, arm, controllet, raw)
        self._count[0] = count + 1

    def since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of events so far, and the events from number ``count`` on.

        An event :attr:`.Event.LOST` at the beginning replaces events that were overwritten.
        """
        total = self.count
        first = max(count, total - EVENT_CAPACITY)
        rows = self._events[np.arange(first, total) % EVENT_CAPACITY]
        # The writer may have overwritten the oldest events during the copy, so they are skipped.
        oldest = max(first, self.count + 1 - EVENT_CAPACITY) if self.count != total else first
        result = [self._read(row) for row in rows[oldest - first :]]
        if oldest > count:
            time_ns = result[0].time_ns if result else 0
            text = f"{oldest - count} earlier events are lost: "
            text += f"the loop keeps the newest {EVENT_CAPACITY}"
            result.insert(0, LoopEvent(Event.LOST, time_ns, "", "", text))
        return total, result

    def _read(self, row: np.void) -> LoopEvent:
        arm, controllet = int(row["arm"]), int(row["controllet"])
        return LoopEvent(
            Event(int(row["event"])),
            int(row["time_ns"]),
            self._arms[arm] if arm >= 0 else "",
            self._controllets[controllet] if controllet >= 0 else "",
            bytes(row["text"]).decode("utf-8", "replace"),
        )
