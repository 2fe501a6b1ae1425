# SPDX-License-Identifier: Apache-2.0
"""Messages to the operator about a reference that is held back from its goal."""

from __future__ import annotations

import math
from collections.abc import Callable

from multipanda_py.context import Context

HELD_NOTICE, FOLLOWED_NOTICE = "target not followed", "target followed again"
"""First words, after the name of the arm, of the notices of a reference that is held back, and of
one that follows again."""
REPORT_DELAY = 0.3
"""Time after which a reference that is held back is reported [s]."""
RELEASE_DELAY = 0.1
"""Time after which a reference that follows again is reported [s]."""
REPORT_INTERVAL = 1.0
"""Minimum time between two reports of the same reference [s]."""


class HeldReferenceReporter:
    """Reporter of a reference that is held back from its goal.

    The first message is sent after 0.3 s and gives the reason. A second message is sent when the
    reference has followed its goal again for 0.1 s. Reasons are sent at most once a second.

    Args:
        context: Context of the controllet.
        name: Name of the arm, or of the object that it moves.

    Attributes:
        is_reported: True if the last message is that the reference is held back.
        cycles: Number of cycles since the reference was held back first; 0 if it is not held back.

    Thread: control.
    """

    def __init__(self, context: Context, name: str) -> None:
        self._notify, self._name, self._period = context.notify, name, context.period
        self._after, self._free, self._pause = (
            max(1, round(time / context.period))
            for time in (REPORT_DELAY, RELEASE_DELAY, REPORT_INTERVAL)
        )
        self.reset()

    def reset(self) -> None:
        self.is_reported = False
        self.cycles = self._freed = 0
        self._reported_at = -math.inf

    def update(self, is_held: bool, now: int, reason: Callable[[], str]) -> None:
        """Count one cycle, and send a message if it is due.

        Args:
            is_held: True if the reference is held back now.
            now: Time [cycles].
            reason: Function that returns the reason as text.
        """
        if not is_held:
            self._let_free()
            return
        self._freed = 0
        self.cycles += 1
        is_due = self.cycles > self._after and now - self._reported_at > self._pause
        if is_due and not self.is_reported:
            self.is_reported, self._reported_at = True, now
            self._notify(f"{self._name}: {HELD_NOTICE}: {reason()}")

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
            self._notify(f"{self._name}: {FOLLOWED_NOTICE} after {lasted:.1f} s")
        self.is_reported, self.cycles = False, 0
