# SPDX-License-Identifier: Apache-2.0
"""One record between two processes, which may be overwritten while it is read.

It has a sequence counter, odd during a write; a reader tries once and otherwise keeps what it has.
"""

from __future__ import annotations

import time

import numpy as np

from multipanda_py.state import Vector

HEAD = 3
"""Words in front of a record: its counter, the number taken, the number up to which it is void."""
SETTLE = 1e-3
"""Far longer than a store takes to reach another core [s]."""
_TRIES = 100


class Slot:
    """One record with a sequence counter: written by one side, read by the other.

    A request that has not been taken yet can be withdrawn: the writer says up to which number
    records are void, the reader says which one it took, before it looks at what is void.

    Attributes:
        counter: Sequence counter, one word, odd during a write.
        seen: Number of the record that was taken last.
    """

    __slots__ = ("_data", "_scratch", "_taken", "_void", "counter", "seen")

    def __init__(self, words: memoryview, floats: Vector, start: int, width: int) -> None:
        self.counter = words[start : start + 1]
        self._taken = words[start + 1 : start + 2]
        self._void = words[start + 2 : start + 3]
        self._data = floats[start + HEAD : start + HEAD + width]
        self._scratch = np.zeros(width)
        self.seen = 0

    def write(self, values: Vector) -> int:
        """Publish ``values`` and return the record's number. Thread: the one writer."""
        counter = self.counter
        counter[0] += 1
        self._data[:] = values
        counter[0] += 1
        return int(counter[0])

    def take(self) -> Vector | None:
        """Return the newest record not taken yet, else None. Never waits. Thread: reader."""
        number = self.counter[0]
        if number == self.seen or number & 1:
            return None
        self._scratch[:] = self._data
        if self.counter[0] != number:
            return None
        self.seen = number
        self._taken[0] = number  # before the look at what is void: see withdraw()
        return None if self._void[0] >= number else self._scratch

    @property
    def written(self) -> int:
        """Number of the newest record; one more while it is being replaced."""
        return int(self.counter[0])

    @property
    def taken(self) -> int:
        """Number of the last record that the reader has taken, void or not."""
        return int(self._taken[0])

    def withdraw(self, number: int) -> bool:
        """Make records up to ``number`` void; call it once for a record. Thread: the one writer.

        Returns:
            Whether the reader has not taken it and never will: then it cannot happen any more.
        """
        self._void[0] = max(self._void[0], number)
        # Long enough for both sides' stores to be seen: a reader that missed this one has said
        # before that it took the record.
        time.sleep(SETTLE)
        return int(self._taken[0]) < number

    def newest(self) -> Vector | None:
        """Return a copy of the newest record, None if there is none yet.

        Thread: reader that may try again; leaves the record to :meth:`take`.
        """
        for _ in range(_TRIES):
            number = self.counter[0]
            values = self._data.copy()
            if number and not number & 1 and self.counter[0] == number:
                return values
        return None

    def skip(self) -> None:
        """Count what is there as taken: it was meant for an earlier activation."""
        number = self.counter[0]
        self.seen = number + (number & 1)
