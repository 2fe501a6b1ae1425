# SPDX-License-Identifier: Apache-2.0
"""Whether a target goes on with a stream, or jumps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

PAUSE = 1.0
"""After this long without a target the next one begins a stream [s]."""


class Stream:
    """What one channel of an arm was asked for last.

    The gate refuses targets that are far from the measured state. An arm that something holds
    back stays behind its stream, though, and must come on when it is free again. So a target
    beyond the gate is clipped to it if it is near the one before it, which was accepted a moment
    ago, and only a jump is refused.

    Args:
        name: Of arm and channel, for the count.
        clipped: Where clipped targets are counted.
    """

    def __init__(self, name: str, clipped: Counter[str]) -> None:
        self._name, self._clipped = name, clipped
        self._last: Any = None
        self._now, self._until = 0.0, 0.0
        self._law: tuple[str, int] = ("", 0)

    def of(self, law: str, beginning: int, now: float) -> Stream:
        """Return it for a law, which knows nothing of what another one was asked for.

        Args:
            law: Its name.
            beginning: Which of its beginnings counts: one that was stopped, or began anew, knows
                nothing of what it was asked for before either.
            now: The machine's time; that of the world in a cell that is stepped by hand, which
                does the same on every machine [s].
        """
        if (law, beginning) != self._law:
            self._last, self._law = None, (law, beginning)
        self._now = now
        return self

    def goes_on(self, is_near: Callable[[Any], bool]) -> bool:
        """Return whether the last target is recent and near; count a clipped one then."""
        goes_on = self._last is not None and self._now < self._until and is_near(self._last)
        self._clipped[self._name] += goes_on
        return goes_on

    def asked(self, target: Any) -> None:
        """Remember a target that is accepted, as it was asked for."""
        self._last, self._until = target, self._now + PAUSE
