# SPDX-License-Identifier: Apache-2.0
"""Streams of targets that are not taken while something else has been asked of their arm."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

Key = tuple[str, str]
"""An arm, or a controllet, and a channel."""
PAUSE = 0.5
"""After this long without a message a stream has ended, and a target is a new one [s]."""


class HeldOff:
    """Which streams are not taken.

    Many clients repeat their newest target for ever, also while they have the arm follow a
    trajectory, and go on with it for some messages when the arm is there: taken, it would take
    the arm back to where it came from. So a stream that goes on with what came in the meantime
    is not taken either, until it says something else or pauses.

    Args:
        now: The machine's time [s].

    Thread: executor.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._reasons: dict[Key, str] = {}
        self._repeated: dict[Key, tuple[float, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons or self._repeated)

    def begin(self, who: str, channel: str, reason: str) -> None:
        """Take nothing of a channel from now on."""
        self._reasons[who, channel] = reason

    def end(self, who: str, channel: str) -> None:
        """Take it again, as soon as it says something new."""
        self._reasons.pop((who, channel), None)

    def channels(self, who: str) -> list[str]:
        """Return which channels of an arm or a controllet are not taken."""
        return [channel for name, channel in self._reasons if name == who]

    def reason(self, who: str, channel: str) -> str:
        """Return why a channel is not taken at present, or nothing."""
        return self._reasons.get((who, channel), "")

    def refusal(self, who: str, channel: str, value: Any) -> str:
        """Return why a target is not taken, or nothing."""
        key, now = (who, channel), self._now()
        if reason := self._reasons.get(key):
            self._repeated[key] = now, value
            return reason
        since, old = self._repeated.get(key, (-np.inf, None))
        if now - since < PAUSE and _same(value, old):
            self._repeated[key] = now, old
            return f"{channel}: repeats what was asked for while a trajectory was followed"
        self._repeated.pop(key, None)
        return ""


def _same(one: Any, other: Any) -> bool:
    """Compare nested sequences of numbers, parts of which may be None."""
    if one is None or other is None:
        return one is other
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(np.array_equal(one, other))
