# SPDX-License-Identifier: Apache-2.0
"""When something that is done at a rate is to be done next."""

from __future__ import annotations

import math


class Due:
    """Says when a period has passed; periods that were missed are not made up for.

    Args:
        rate: How often [Hz].
    """

    def __init__(self, rate: float) -> None:
        self._period = 1.0 / rate
        self._next = -math.inf

    def is_due(self, now: float) -> bool:
        """Return whether it is time, and count the next period from now on [s]."""
        if now < self._next:
            return False
        late = now - self._next
        self._next = now + self._period - (late if late < self._period else 0.0)
        return True

    def left(self, now: float) -> float:
        """Return the time until then [s]; 0 if it has come."""
        return max(0.0, self._next - now)
