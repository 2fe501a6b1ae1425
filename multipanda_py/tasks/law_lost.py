# SPDX-License-Identifier: Apache-2.0
"""Who has taken its arms from the law of a task."""

from __future__ import annotations

import time

from multipanda_py.cell import Cell
from multipanda_py.loop.events import Event

ENDING = (Event.CLIENT_SILENT, Event.CLIENT_GONE)
"""What has every arm hold without a fault, and without anybody asking."""


class LawLost:
    """Watch a law from when its task starts.

    Args:
        cell: Started.
        law: Name of the controllet.
    """

    def __init__(self, cell: Cell, law: str) -> None:
        self._cell, self._law = cell, law
        self._since, (self._seen, _) = time.monotonic(), cell.events_since(0)

    def look(self) -> str:
        """Say that it is not active any more, and what has ended it; empty if it is."""
        if self._law in self._cell.active:
            return ""
        _, events = self._cell.events_since(self._seen)
        said = [event.text for event in events if event.event in ENDING]
        why = self._cell.ended_by(self._law, self._since) or (said[-1] if said else "")
        return f"{self._law} is not active any more: {why or 'see the events of the loop'}"
