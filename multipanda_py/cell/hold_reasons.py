# SPDX-License-Identifier: Apache-2.0
"""Reasons why arms hold, from the reports of the loop."""

from __future__ import annotations

from collections.abc import Iterable

from multipanda_py.loop.events import LoopEvent


class HoldReasons:
    """Reason of the present hold of each arm, from the events of a loop.

    Args:
        arms: Names of the arms.
    """

    def __init__(self, arms: Iterable[str]) -> None:
        self._reasons = dict.fromkeys(arms, "")

    def note(self, event: LoopEvent) -> None:
        """Process an event; events come in the order of their reports."""
        if not event.event.ends_laws:
            return
        text = f"{event.event.name.lower()}: {event.text}"
        for arm in [event.arm] if event.arm in self._reasons else list(self._reasons):
            self._reasons[arm] = text

    def of(self, arm: str) -> str:
        """Return the reason why an arm holds; empty if it has held since the start."""
        return self._reasons[arm]
