# SPDX-License-Identifier: Apache-2.0
"""Read every row of a ring once, in order."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from multipanda_py.loop.row_ring import ROWS, RowRing

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
