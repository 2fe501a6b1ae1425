# SPDX-License-Identifier: Apache-2.0
"""The movable things of a simulated world: put elsewhere, brought in, taken out."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from multipanda_py.backend import Backend
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import movable_things, surroundings
from multipanda_py.loop.arm import Arm
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import Change, Entry, Mailbox
from multipanda_py.state import Vector

_DONE = (Entry.DONE, 0, 0.0)


class Things:
    """Do with things what the owner asks for, and answer.

    What a hand holds does not go, nothing comes to where something else is, and nothing moves to
    where an arm is: the answer says what is in the way. Who wants no answer may put things there,
    and it is reported: what is inside an arm pushes it away, as hard as it is deep.

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
        self._movable = movable_things(config)
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
                if found := self.backend.inside(record):
                    text = (
                        f"{self._movable[thing]} is put {1e3 * found[1]:.1f} mm inside {found[0]}"
                    )
                    self._mailbox.report(Event.NOTICE, time.monotonic_ns(), -1, -1, text)
                self.backend.place(record)

    def change(self, record: Vector) -> tuple[Entry, int, float]:
        """Bring a thing in, take it out, or put it elsewhere.

        Args:
            record: A :class:`.Change`, then as of :meth:`.Backend.place`.

        Returns:
            As an answer in the mailbox has it, without the number: what became of it, what is in
            the way (its place in :func:`.surroundings`), and how deep [m].
        """
        change, thing = Change(int(record[0])), int(record[1])
        if (change is Change.SPAWN) == bool(self._present[thing]):
            return (Entry.PRESENT if change is Change.SPAWN else Entry.ABSENT), 0, 0.0
        if change is Change.REMOVE:
            for arm in self._arms:
                if arm.state.holds.item() == thing + 1:
                    return Entry.HELD, 1 + arm.index, 0.0
            self.backend.remove(thing)
        else:
            spawns, put = change is Change.SPAWN, record[1:]
            found = self.backend.spawn(put) if spawns else self.backend.inside(put)
            if found:
                return Entry.INSIDE, self._around.index(found[0]), found[1]
            if not spawns:
                self.backend.place(put)
        self._present[thing] = change is not Change.REMOVE
        return _DONE

    def skip(self) -> None:
        """Leave what was asked for before a world was set back."""
        for slot in (*self._mailbox.entries, *self._mailbox.placed):
            slot.skip()
