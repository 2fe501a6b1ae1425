# SPDX-License-Identifier: Apache-2.0
"""How fast a goal moves that comes in steps."""

from __future__ import annotations

import math


class GoalSpeed:
    r"""Estimate the speed of a goal from the steps in which it comes.

    .. math::
        \tau \dot u = -u + \sum_k p_k\, \delta(t - t_k), \qquad \tau \dot v = u - v, \qquad
        p_k = \min(s_k, s_{k-1})

    with the length s of every step: a step is believed as far as the one before it, if that was
    less than ``WITHIN`` ago. A goal that jumps once does not move, whatever trembles before and
    after it; one that comes in equal steps moves with their mean speed, and is known to about
    0.1 s after it began.

    Args:
        period: Of a cycle [s].

    Attributes:
        speed: v [unit/s].
        remembers: Whether :meth:`advance` changes anything.

    Thread: control.
    """

    __slots__ = ("_cycles", "_kept", "_last", "_left", "_period", "_raw", "remembers", "speed")

    TIME = 0.05
    """Time constant of both filters [s]."""
    WITHIN = 0.25
    """Time between two steps of one motion [s]."""
    STILL = 1e-6
    """Speed that counts as none [unit/s]."""

    def __init__(self, period: float) -> None:
        self._period, self._cycles = period, round(self.WITHIN / period)
        self._kept = math.exp(-period / self.TIME)
        self.reset()

    def reset(self) -> None:
        """Forget all steps."""
        self.speed = self._raw = self._last = 0.0
        self._left, self.remembers = 0, False

    def step(self, size: float) -> None:
        """Take a step of the goal, of any length [unit]."""
        self._raw += (size if size < self._last else self._last) / self.TIME
        self._last, self._left, self.remembers = size, self._cycles, True

    def advance(self) -> None:
        """Go on by one cycle."""
        self._raw *= self._kept
        self.speed += (1.0 - self._kept) * (self._raw - self.speed)
        if self._left:
            self._left -= 1
        else:
            self._last = 0.0
            if self.speed < self.STILL:
                self.reset()
