# SPDX-License-Identifier: Apache-2.0
"""Speed bound of a reference in contact, and after it was held back."""

from __future__ import annotations

import math
from collections import deque

LEAD = 1.1
"""Speed of a bounded reference relative to the speed of its goal: the gap closes in the end."""
STREAM = 1e-3
"""Speed of a goal below which it has jumped and does not move [unit/s]."""
CAUGHT_UP = 0.15
"""Time in which the goal covers the gap of a reference that follows again [s]."""
NEAR = 1e-3
"""Gap below which a reference follows in any case [unit]."""
RECENT = 1.0
"""Time after which a motion of the goal is forgotten [s]."""
WITHIN = 0.25
"""Longest time between two steps of one motion [s]."""
WINDOW = 0.15
"""Time over which the speed of a goal is averaged [s]."""
JUMP = 4.0
"""Step of a goal relative to the previous step, above which it is a new goal and no stream."""


class ReferenceCap:
    r"""Bound a reference by the speed at which its goal moves.

    .. math::
        v_{max} = \max(v_c,\; 1.1\, v_g) \text{ in contact}, \qquad
        v_{max} = 1.1\, \max_t v_g \text{ after a stream was held back}

    with the bound :math:`v_c` in contact and the goal's speed :math:`v_g`, from the goals as they
    are given. It is the largest mean over 0.15 s in the last second, so that a goal may reverse. A
    step counts up to the length of the previous step, if that is less than 0.25 s old: a goal
    that jumps does not move. The second bound ends when the goal covers the gap within 0.15 s, or
    jumps.

    Cycles without a goal and without a request cost nothing. Times are counts of cycles.

    Args:
        period: Cycle time [s].

    Attributes:
        acts: Whether :meth:`speed` can be finite without a contact.

    Thread: control.
    """

    __slots__ = (
        "_fastest", "_length", "_period", "_recent", "_speeds", "_start", "_step", "_time",
        "_window", "_within", "acts",
    )  # fmt: skip

    def __init__(self, period: float) -> None:
        self._period = period
        self._within, self._window, self._recent = (
            round(time / period) for time in (WITHIN, WINDOW, RECENT)
        )
        self._speeds: deque[tuple[int, float]] = deque(maxlen=1 + round(RECENT / WINDOW))
        self.reset()

    def reset(self) -> None:
        """Forget the goal's motion."""
        self._speeds.clear()
        self._step = self._length = self._fastest = 0.0
        self._time = self._start = -self._within
        self.acts = False

    def give(self, step: float, now: int) -> None:
        """Receive a step of the goal [unit], at a time [cycles]."""
        if now - self._time > self._within:  # the first one
            self._start, self._length, self._step = now, 0.0, 0.0
        if step > NEAR and step > JUMP * self._step:
            self.acts = False
        self._length += min(step, self._step)
        self._step, self._time = step, now
        if (cycles := now - self._start) >= self._window:
            self._speeds.append((now, self._length / (cycles * self._period)))
            self._start, self._length = now, 0.0

    def streams(self, now: int) -> bool:
        """Return whether the goal is streamed, without a jump."""
        if now - self._time > self._within:
            return False
        if self._speeds and self._speeds[-1][0] == self._start and self._speeds[-1][1] > STREAM:
            return True
        return self._length > STREAM * self._period * max(now - self._start, self._window)

    def hold(self, now: int) -> None:
        """Note that the reference is held back in this cycle."""
        if not self.acts:
            self._fastest = 0.0
        self._fastest = max(self._fastest, self.goal_speed(now))
        self.acts = self._fastest > STREAM

    def speed(
        self, gap: float, now: int, in_contact: float = math.inf, rate: float = 0.0
    ) -> float:
        """Return the bound [unit/s].

        Args:
            gap: Distance from the reference to its goal [unit].
            now: Time [cycles].
            in_contact: Bound in contact, infinite without contact [unit/s].
            rate: Speed of the goal that the client has sent [unit/s].
        """
        fastest = max(self.goal_speed(now), rate)
        bound = max(in_contact, LEAD * fastest)
        if self.acts:
            self._fastest = max(self._fastest, fastest)
            if gap < CAUGHT_UP * self._fastest + NEAR:
                self.acts = False
            else:
                bound = min(bound, LEAD * self._fastest)
        return bound

    def goal_speed(self, now: int) -> float:
        """Return the largest speed of the goal in the last second [unit/s]."""
        since = now - self._recent
        return max([speed for time, speed in self._speeds if time > since], default=0.0)
