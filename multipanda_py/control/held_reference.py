# SPDX-License-Identifier: Apache-2.0
"""Notices about a reference that a limiter holds back."""

from __future__ import annotations

import math
from collections.abc import Callable

from multipanda_py.context import Context

HELD, FOLLOWED = "target not followed", "target followed again"
"""Beginnings of the two notices, after the name of the arm."""
AFTER = 0.3
"""Time for which a reference is held back before it is reported [s]."""
FREE = 0.1
"""Time for which it is free before that is reported [s]."""
PAUSE = 1.0
"""Minimum time between two reports of the same reference [s]."""


class HeldReference:
    """Report once that a reference is held back, and once that it follows again.

    A reference that is held back for 0.3 s is reported with the reason. It is reported again when
    it has been free for 0.1 s, or has arrived. Within a second after the last report nothing is
    reported; if the reference is still held back then, the report follows.

    Args:
        context: Context of the controllet.
        name: Name of the arm, or of the object that it moves.

    Attributes:
        is_reported: Whether the last report is that it is held back.
        cycles: Cycles for which it has been held back; 0 if :meth:`update` has nothing to do.

    Thread: control.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._notify, self._name, self._period = context.notify, name, context.period
        self._after, self._free, self._pause = (
            max(1, round(time / context.period)) for time in (AFTER, FREE, PAUSE)
        )
        self.reset()

    def reset(self) -> None:
        """Begin with a reference that is not held back."""
        self.is_reported = False
        self.cycles = self._freed = 0
        self._reported_at = -math.inf

    def update(self, is_held: bool, now: int, why: Callable[[], str]) -> None:
        """Count one cycle, and report if it is time.

        Args:
            is_held: Whether the reference is held back now.
            now: Time [cycles].
            why: Function that returns the reason; called only for a report.
        """
        if not is_held:
            self._let_free()
            return
        self._freed = 0
        self.cycles += 1
        is_due = self.cycles > self._after and now - self._reported_at > self._pause
        if is_due and not self.is_reported:
            self.is_reported, self._reported_at = True, now
            self._notify(f"{self._name}: {HELD}: {why()}")

    def _let_free(self) -> None:
        if not self.cycles:
            return
        self._freed += 1
        if self.is_reported:
            self.cycles += 1
        if self._freed < self._free:
            return
        if self.is_reported:
            lasted = (self.cycles - self._freed) * self._period
            self._notify(f"{self._name}: {FOLLOWED} after {lasted:.1f} s")
        self.is_reported, self.cycles = False, 0
