# SPDX-License-Identifier: Apache-2.0
"""Ring buffer of cycle records in shared memory, and its readers."""

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

CAPACITY = 4096
"""Number of cycles in the ring, about four seconds at 1 kHz."""
_UNREAD_RECORDS = 64
"""Number of the oldest records that are not read, because they may be overwritten during the
copy."""


class RecordRing:
    """Ring buffer of cycle records that readers copy without blocking the writer.

    The writer puts record n (from 0) at index n modulo ``CAPACITY``, and increments the count
    afterwards. At count c, record c - ``CAPACITY`` may be partly overwritten, and all later ones
    are complete. A reader copies first, reads the count again, and drops the records that may have
    been overwritten. This relies on loads and stores that stay in program order, as in all shared
    memory of the loop.

    Args:
        memory: Shared memory.
        start: Offset of the ring [bytes].
        dtype: Type of a record.
        count: Word that counts records, (1,).

    Attributes:
        rows: Buffer of all records, (CAPACITY,), not in the order of time.
        flat: Same buffer as numbers, (CAPACITY, n).
    """

    def __init__(
        self, memory: mmap.mmap, start: int, dtype: np.dtype[np.void], count: memoryview
    ) -> None:
        self._count = count
        self.rows: NDArray[np.void] = np.frombuffer(memory, dtype, CAPACITY, start)
        width = dtype.itemsize // 8
        self.flat = np.frombuffer(memory, np.float64, CAPACITY * width, start).reshape(
            CAPACITY, width
        )

    @property
    def count(self) -> int:
        """Number of records so far. Thread: any."""
        return int(self._count[0])

    def append(self, row: NDArray[np.float64]) -> None:
        """Append a record, viewed as numbers (n,). Thread: the one writer."""
        count = self._count[0]
        self.flat[count % CAPACITY] = row
        self._count[0] = count + 1

    def newest(self) -> NDArray[np.float64] | None:
        """Return a copy of the newest record as numbers, (n,); None without records.

        Thread: any.
        """
        while count := self.count:
            row: NDArray[np.float64] = self.flat[(count - 1) % CAPACITY].copy()
            if self.count - count < CAPACITY - 1:
                return row
        return None

    def newest_until(self, column: int, max_value: float) -> NDArray[np.float64]:
        """Return a copy of the newest record whose value in a column is <= ``max_value``.

        The column must increase with the records, such as time. If all stored records have larger
        values, the oldest record is returned. Call it only after the first record. Thread: any.

        Args:
            column: Index of the column.
            max_value: Maximum value of the column.

        Returns:
            Record as numbers, (n,).
        """
        while True:
            count = self.count
            number = count - 1
            oldest = max(0, count - CAPACITY + _UNREAD_RECORDS)
            while number > oldest and self.flat[number % CAPACITY, column] > max_value:
                number -= 1
            row: NDArray[np.float64] = self.flat[number % CAPACITY].copy()
            if number > self.count - CAPACITY:
                return row

    def read(self, since: int, max_records: int = CAPACITY) -> tuple[int, NDArray[np.void]]:
        """Return copies of the records after the first ``since``, oldest first. Thread: any.

        Args:
            since: Number of records to skip.
            max_records: Maximum number of records; the oldest are returned.

        Returns:
            Number of records before the first returned one, and the records. Records that were
            overwritten before or during the copy are left out, and the number is then larger than
            ``since``.
        """
        count = self.count
        first = min(count, max(since, count - CAPACITY + _UNREAD_RECORDS))
        last = min(count, first + max_records)
        rows = np.empty(last - first, self.rows.dtype)
        if first == last:
            return first, rows
        start, size = first % CAPACITY, last - first
        unwrapped = min(size, CAPACITY - start)
        flat = rows.view(np.float64).reshape(size, -1)
        flat[:unwrapped] = self.flat[start : start + unwrapped]
        flat[unwrapped:] = self.flat[: size - unwrapped]
        # First record that the writer cannot be overwriting.
        whole = min(last, max(first, self.count - CAPACITY + 1))
        return whole, rows[whole - first :]


@dataclass(frozen=True)
class RecordLayout:
    """Layout of the ring buffers in the shared memory of a cell, in numbers that fit into JSON.

    A process that only reads records can use it without the cell file and without the modules of
    the controllets. Their import takes a second and 100 MB of memory.

    Attributes:
        size: Size of the memory [bytes].
        start: Offset of the ring of records [bytes].
        count_at: Offset of the number of records [bytes].
        events_at: Offset of the ring of events [bytes].
        event_count_at: Offset of the number of events [bytes].
        sizes: Arguments of :func:`.row_dtype`: arms, objects, instances, joints, terms, joints
            with compliant actuators.
    """

    size: int
    start: int
    count_at: int
    events_at: int
    event_count_at: int
    sizes: tuple[int, int, int, int, int, int]

    def open(
        self, fd: int, arms: Sequence[str], controllets: Sequence[str]
    ) -> tuple[RecordRing, EventRing]:
        """Map the memory read-only, and return the rings of records and of events.

        Args:
            fd: File descriptor of the memory; the caller may close it afterwards.
            arms: Names of the arms.
            controllets: Names of the instances.

        Raises:
            LoopError: If the memory has another size.
        """
        result = os.fstat(fd).st_size
        if result != self.size:
            raise LoopError(f"shared memory has {result} bytes, but this cell needs {self.size}")
        memory = mmap.mmap(fd, self.size, access=mmap.ACCESS_READ)
        words = [
            memoryview(memory)[at : at + 8].cast("q")
            for at in (self.count_at, self.event_count_at)
        ]
        rows = RecordRing(memory, self.start, row_dtype(*self.sizes), words[0])
        return rows, EventRing(memory, self.events_at, words[1], arms, controllets)


_POLL_PERIOD = 2e-3  # Period of checking for new records [s].


class RecordReader:
    """Reader of every cycle record, once and in order.

    The memory is only read: a slow, stopped or killed reader does not affect the loop. Reading
    begins with the next record. Records that were overwritten before they could be read are
    counted.

    Args:
        ring: Ring buffer of the loop.

    Attributes:
        dtype: Type of a record, see ``doc/rows.md``.
        seen: Number of records before those that :meth:`take` returns next.
        dropped: Number of records that were overwritten before they could be copied.
        ring: Ring buffer of the loop.

    Thread: one at a time.
    """

    def __init__(self, ring: RecordRing) -> None:
        self.ring = ring
        self.dtype = ring.rows.dtype
        self.seen, self.dropped = ring.count, 0

    @property
    def waiting(self) -> int:
        """Number of records since the last :meth:`take`; above ``CAPACITY`` some are lost."""
        return self.ring.count - self.seen

    def newest(self) -> NDArray[np.void] | None:
        """Return a copy of the newest record, shape (); None without records."""
        row = self.ring.newest()
        return None if row is None else row.view(self.dtype)[0]

    def take(self, most: int = CAPACITY) -> NDArray[np.void]:
        """Return up to ``most`` records since the last call, oldest first; never waits."""
        first, rows = self.ring.read(self.seen, most)
        self.dropped += first - self.seen
        self.seen = first + len(rows)
        return rows

    def wait(self, timeout: float, most: int = CAPACITY) -> NDArray[np.void]:
        """Wait for the first new record, and return records as :meth:`take`.

        Args:
            timeout: Maximum waiting time [s].
            most: Maximum number of records.
        """
        deadline = time.monotonic() + timeout
        while not self.waiting and time.monotonic() < deadline:
            time.sleep(_POLL_PERIOD)
        return self.take(most)
