# SPDX-License-Identifier: Apache-2.0
"""What would be said at every message: said once, then counted."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

SILENCE = 10.0
"""After this long without it something is news again [s]."""
MOST = 500
"""So many kinds are remembered."""
_NUMBER = re.compile(r"[-+]?\d[\d.]*(e[-+]?\d+)?")


class SaidOnce:
    """Which complaints are new. Those that differ in numbers only are the same.

    Args:
        now: The machine's time [s].

    Attributes:
        known: Time and number of repetitions by complaint, without its numbers.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.known: dict[str, tuple[float, int]] = {}

    def news(self, text: str) -> str:
        """Return a text that is to be said, with how often it was not before; else nothing."""
        key, now = _NUMBER.sub("#", text), self._now()
        if len(self.known) > MOST:
            self.known.clear()
        last, unsaid = self.known.get(key, (-SILENCE, 0))
        if now - last < SILENCE:
            self.known[key] = now, unsaid + 1
            return ""
        self.known[key] = now, 0
        more = f" (and {unsaid} more like it the last time)" if unsaid else ""
        return f"{text}{more}"
