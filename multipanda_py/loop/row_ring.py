# SPDX-License-Identifier: Apache-2.0
"""The last rows of a loop, in shared memory: one writes, anybody reads along."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import NDArray

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
