# SPDX-License-Identifier: Apache-2.0
"""Reasons why arms hold, from the reports of the loop."""

from __future__ import annotations

from collections.abc import Iterable

from multipanda_py.loop.events import LoopEvent


class HoldReasons:
    """Follow the events of a loop, and know what has given each arm to its hold.

    Args:
        arms: Names of the arms.
    """

    def __init__(self, arms: Iterable[str]) -> None:
        self._reasons = dict.fromkeys(arms, "")

    def note(self, event: LoopEvent) -> None:
        """Take an event, in the order of their reports."""
        if not event.event.ends_laws:
            return
        text = f"{event.event.name.lower()}: {event.text}"
        for arm in [event.arm] if event.arm in self._reasons else list(self._reasons):
            self._reasons[arm] = text

    def of(self, arm: str) -> str:
        """Return why an arm holds; empty if no controllet has had it since the start."""
        return self._reasons[arm]
