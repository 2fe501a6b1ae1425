# SPDX-License-Identifier: Apache-2.0
"""The movable things of a simulated world: put elsewhere, brought in, taken out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import surroundings
from multipanda_py.loop.arm import Arm
from multipanda_py.loop.mailbox import Entry, Mailbox
from multipanda_py.state import Vector

_DONE = (Entry.DONE, 0, 0.0)


class Things:
    """Do with things what the owner asks for, and answer.

    What a hand holds does not go, and nothing comes to where something else is: the answer says
    what is in the way.

    Args:
        config: The cell.
        arms: The arms, in its order.
        backends: What moves the arms; the one with a world of its own moves things.
        mailbox: Where requests come from, and answers go to.
        present: Which movable things are in the scene, (n,); kept here.

    Attributes:
        backend: That moves things.
        taken: How many requests there were.

    Thread: control.
    """

    def __init__(
        self,
        config: CellConfig,
        arms: Sequence[Arm],
        backends: Sequence[Backend],
        mailbox: Mailbox,
        present: NDArray[np.int64],
    ) -> None:
        self._arms, self._mailbox, self._present = arms, mailbox, present
        self._around, self.taken = surroundings(config), 0
        self.backend = next((b for b in backends if b.keeps_time), backends[0])

    def take(self) -> None:
        """Do what is asked for."""
        box = self._mailbox
        for slot, answer in zip(box.entries, box.entry_answers):
            if (record := slot.take()) is not None:
                self.taken += 1
                answer.write(np.array([slot.seen, *self.change(record)]))
        for thing, slot in enumerate(box.placed):
            if (record := slot.take()) is not None and self._present[thing]:
                self.taken += 1
                self.backend.place(record)

    def change(self, record: Vector) -> tuple[Entry, int, float]:
        """Bring a thing in or take it out.

        Args:
            record: Whether it is to come, then as of :meth:`.Backend.place`.

        Returns:
            As an answer in the mailbox has it, without the number: what became of it, what is in
            the way (its place in :func:`.surroundings`), and how deep [m].
        """
        comes, thing = bool(record[0]), int(record[1])
        if comes == bool(self._present[thing]):
            return (Entry.PRESENT if comes else Entry.ABSENT), 0, 0.0
        if comes:
            if found := self.backend.spawn(record[1:]):
                return Entry.INSIDE, self._around.index(found[0]), found[1]
        else:
            for arm in self._arms:
                if arm.state.holds.item() == thing + 1:
                    return Entry.HELD, 1 + arm.index, 0.0
            self.backend.remove(thing)
        self._present[thing] = comes
        return _DONE

    def skip(self) -> None:
        """Leave what was asked for before a world was set back."""
        for slot in (*self._mailbox.entries, *self._mailbox.placed):
            slot.skip()
