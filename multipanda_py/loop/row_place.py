# SPDX-License-Identifier: Apache-2.0
"""Where the rows of a running loop are: all that a process has to know to read along."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass

from multipanda_py.exceptions import LoopError
from multipanda_py.loop.event_ring import EventRing
from multipanda_py.loop.row import row_dtype
from multipanda_py.loop.row_ring import RowRing


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
