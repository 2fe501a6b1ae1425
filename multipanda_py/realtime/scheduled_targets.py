# SPDX-License-Identifier: Apache-2.0
"""Targets that count from a moment on: alone, or together with those of other arms."""

from __future__ import annotations

from typing import NamedTuple

from multipanda_py.state import Vector

START, TOGETHER = 1, 2
"""Numbers of a record that say from what time of the controlled world it counts [s], 0 for at
once, and how many arms of its law have to have one with the same time before any begins."""


class LaterTarget(NamedTuple):
    """One of them: its channel, its arm, the record that it goes to, and its numbers."""

    channel: str
    place: int
    data: Vector
    values: Vector


class LaterTargets:
    """What waits for its time, one target an arm.

    A newer target of an arm takes the place of what waits there, and of what waits for that.

    Args:
        clock: Time of the controlled world, (1,) [s].

    Attributes:
        waiting: By the arm's place in its law; always the same dictionary.

    Thread: control.
    """

    def __init__(self, clock: Vector) -> None:
        self._clock = clock
        self.waiting: dict[int, LaterTarget] = {}

    def clear(self) -> None:
        """Forget everything."""
        self.waiting.clear()

    def replace(self, place: int) -> None:
        """Forget what waits for an arm, and what was to begin together with it."""
        old = self.waiting.pop(place, None)
        if old is not None and old.values[TOGETHER] > 1.0:
            start = old.values[START]
            for mate in [k for k, one in self.waiting.items() if one.values[START] == start]:
                del self.waiting[mate]

    def keep(self, channel: str, place: int, data: Vector, values: Vector) -> bool:
        """Keep a target until it is due; return whether it waits at all."""
        if values[TOGETHER] <= 1.0 and values[START] <= self._clock[0]:
            return False
        self.waiting[place] = LaterTarget(channel, place, data, values.copy())
        return True

    def due(self) -> list[LaterTarget]:
        """Return what counts from now on, and forget it."""
        now, waiting = float(self._clock[0]), self.waiting
        starts = [float(one.values[START]) for one in waiting.values()]
        due = {
            place: one
            for place, one in waiting.items()
            if one.values[START] <= now
            and starts.count(float(one.values[START])) >= one.values[TOGETHER]
        }
        for place in due:
            del waiting[place]
        return list(due.values())
