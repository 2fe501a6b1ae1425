# SPDX-License-Identifier: Apache-2.0
"""The last reports of a loop, in shared memory: one writes, anybody reads along."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.loop.events import Event, LoopEvent

EVENTS = 256
"""Number of reports that are kept. A switch makes one per arm, and readers may be late."""
_TEXT = 480
EVENT = np.dtype(
    [
        ("event", "i8"),
        ("time_ns", "i8"),
        ("arm", "i8"),
        ("controllet", "i8"),
        ("text", f"S{_TEXT}"),
    ]
)


class EventRing:
    """Append reports, and read them along.

    Args:
        memory: The mailbox.
        start: Where the ring begins in it, in bytes.
        count: The word that counts reports, (1,).
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
        self._events: NDArray[np.void] = np.frombuffer(memory, EVENT, EVENTS, start)

    @property
    def count(self) -> int:
        """Number of reports so far. Thread: any."""
        return int(self._count[0])

    def append(self, event: Event, time_ns: int, arm: int, controllet: int, text: str) -> None:
        """Add a report, in one line. Thread: the one writer; only when something went wrong."""
        count = self._count[0]
        raw = " ".join(text.split()).encode("utf-8", "replace")[:_TEXT]
        self._events[count % EVENTS] = (int(event), time_ns, arm, controllet, raw)
        self._count[0] = count + 1

    def since(self, count: int) -> tuple[int, list[LoopEvent]]:
        """Return the number of reports so far, and those after the first ``count``.

        Reports that the writer has overwritten are replaced by one of :attr:`.Event.LOST`.
        """
        total = self.count
        first = max(count, total - EVENTS)
        rows = self._events[np.arange(first, total) % EVENTS]
        # The writer may have advanced meanwhile, and may be overwriting the oldest report now.
        kept = max(first, self.count + 1 - EVENTS) if self.count != total else first
        found = [self._read(row) for row in rows[kept - first :]]
        if kept > count:
            time_ns = found[0].time_ns if found else 0
            text = f"{kept - count} earlier events are lost: the loop keeps the newest {EVENTS}"
            found.insert(0, LoopEvent(Event.LOST, time_ns, "", "", text))
        return total, found

    def _read(self, row: np.void) -> LoopEvent:
        arm, controllet = int(row["arm"]), int(row["controllet"])
        return LoopEvent(
            Event(int(row["event"])),
            int(row["time_ns"]),
            self._arms[arm] if arm >= 0 else "",
            self._controllets[controllet] if controllet >= 0 else "",
            bytes(row["text"]).decode("utf-8", "replace"),
        )
