# SPDX-License-Identifier: Apache-2.0
"""Read every row of a ring once, in order."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.cycle_record import row_dtype
from multipanda_py.realtime.events import EventRing

ROWS = 4096
"""Cycles kept: about four seconds."""
_MARGIN = 64
"""Oldest rows that are not even tried: they would be overwritten during the copy."""


class RowRing:
    """Read rows without ever making their writer wait.

    The writer puts row n (from 0) into place n modulo ``ROWS``, and counts it afterwards. While
    the count is c, then, row c - ROWS may be half overwritten, and all after it are whole. A
    reader copies first, looks at the count again, and leaves out what was not safe any more. This
    relies on stores and loads staying in program order, as the rest of the mailbox does.

    Args:
        memory: The mailbox.
        start: Where the ring begins in it, in bytes.
        dtype: Of a row.
        count: The word that counts rows, (1,).

    Attributes:
        rows: All places, (ROWS,), in no order.
        flat: The same as numbers, (ROWS, n).
    """

    def __init__(
        self, memory: mmap.mmap, start: int, dtype: np.dtype[np.void], count: memoryview
    ) -> None:
        self._count = count
        self.rows: NDArray[np.void] = np.frombuffer(memory, dtype, ROWS, start)
        width = dtype.itemsize // 8
        self.flat = np.frombuffer(memory, np.float64, ROWS * width, start).reshape(ROWS, width)

    @property
    def count(self) -> int:
        """Number of rows so far. Thread: any."""
        return int(self._count[0])

    def append(self, row: NDArray[np.float64]) -> None:
        """Add a row, seen as numbers (n,). Thread: the one writer."""
        count = self._count[0]
        self.flat[count % ROWS] = row
        self._count[0] = count + 1

    def newest(self) -> NDArray[np.float64] | None:
        """Return a copy of the newest row as numbers, (n,); None if there is none. Thread: any."""
        while count := self.count:
            row: NDArray[np.float64] = self.flat[(count - 1) % ROWS].copy()
            if self.count - count < ROWS - 1:
                return row
        return None

    def newest_until(self, column: int, most: float) -> NDArray[np.float64]:
        """Return a copy of the newest row, (n,), whose number in a column is at most ``most``.

        The column grows with the rows, such as time. If it is more in all rows that are kept, the
        oldest of them is returned. Call it when there is a row. Thread: any.
        """
        while True:
            count = self.count
            number = count - 1
            oldest = max(0, count - ROWS + _MARGIN)
            while number > oldest and self.flat[number % ROWS, column] > most:
                number -= 1
            row: NDArray[np.float64] = self.flat[number % ROWS].copy()
            if number > self.count - ROWS:
                return row

    def read(self, since: int, most: int = ROWS) -> tuple[int, NDArray[np.void]]:
        """Return copies of rows after the first ``since``, oldest first. Thread: any.

        Args:
            since: How many rows are not asked for any more.
            most: At most so many, the oldest.

        Returns:
            How many rows lie before the first of them, and the rows. What was overwritten already,
            or during the copy, is left out: the first is then more than ``since``.
        """
        count = self.count
        first = min(count, max(since, count - ROWS + _MARGIN))
        last = min(count, first + most)
        rows = np.empty(last - first, self.rows.dtype)
        if first == last:
            return first, rows
        begin, size = first % ROWS, last - first
        unwrapped = min(size, ROWS - begin)
        flat = rows.view(np.float64).reshape(size, -1)
        flat[:unwrapped] = self.flat[begin : begin + unwrapped]
        flat[unwrapped:] = self.flat[: size - unwrapped]
        whole = min(last, max(first, self.count - ROWS + 1))  # the first that is certainly whole
        return whole, rows[whole - first :]


@dataclass(frozen=True)
class RowPlace:
    """Say where the ring of rows is in a cell's shared memory, in numbers that fit into JSON.

    Who only reads rows needs neither the cell file nor the modules of its laws, which take a
    second to import and a hundred megabytes.

    Attributes:
        size: Of the memory [bytes].
        start: Where the ring begins [bytes].
        count_at: Where the number of rows is [bytes].
        events_at: Where the ring of events begins [bytes].
        event_count_at: Where their number is [bytes].
        sizes: What :func:`.row_dtype` takes: arms, objects, instances, joints, terms,
            joints with compliant actuators.
    """

    size: int
    start: int
    count_at: int
    events_at: int
    event_count_at: int
    sizes: tuple[int, int, int, int, int, int]

    def open(
        self, fd: int, arms: Sequence[str], controllets: Sequence[str]
    ) -> tuple[RowRing, EventRing]:
        """Map the memory for reading, and return the rings of rows and of events.

        Args:
            fd: Of the memory; may be closed afterwards.
            arms: Names of the arms.
            controllets: Names of the instances.

        Raises:
            LoopError: If it is not the memory that this place is in.
        """
        found = os.fstat(fd).st_size
        if found != self.size:
            raise LoopError(
                f"shared memory of {found} bytes is not that of this cell, which has {self.size}"
            )
        memory = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
        words = [
            memoryview(memory)[at : at + 8].cast("q")
            for at in (self.count_at, self.event_count_at)
        ]
        rows = RowRing(memory, self.start, row_dtype(*self.sizes), words[0])
        return rows, EventRing(memory, self.events_at, words[1], arms, controllets)


_LOOK_PERIOD = 2e-3


class RowReader:
    """Read every row once, in order; what came too fast is counted.

    The memory is only read: a reader that is slow, stopped or killed costs the loop nothing.
    It begins with the next row.

    Args:
        ring: Of the loop.

    Attributes:
        dtype: Of a row, see ``doc/rows.md``.
        seen: How many rows were before those that :meth:`take` returns next.
        dropped: How many of them were overwritten before they could be copied.
        ring: Ring of the loop's rows, which is only read.

    Thread: one at a time.
    """

    def __init__(self, ring: RowRing) -> None:
        self.ring = ring
        self.dtype = ring.rows.dtype
        self.seen, self.dropped = ring.count, 0

    @property
    def waiting(self) -> int:
        """How many rows there are since the last :meth:`take`; above ``ROWS`` some are lost."""
        return self.ring.count - self.seen

    def newest(self) -> NDArray[np.void] | None:
        """Return a copy of the newest row, shape (); None if there is none."""
        row = self.ring.newest()
        return None if row is None else row.view(self.dtype)[0]

    def take(self, most: int = ROWS) -> NDArray[np.void]:
        """Return the rows since the last call, oldest first, at most ``most``; never waits."""
        first, rows = self.ring.read(self.seen, most)
        self.dropped += first - self.seen
        self.seen = first + len(rows)
        return rows

    def wait(self, timeout: float, most: int = ROWS) -> NDArray[np.void]:
        """Do as :meth:`take`, but wait until there is a row, for at most ``timeout`` [s]."""
        deadline = time.monotonic() + timeout
        while not self.waiting and time.monotonic() < deadline:
            time.sleep(_LOOK_PERIOD)
        return self.take(most)
