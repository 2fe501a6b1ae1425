# SPDX-License-Identifier: Apache-2.0
"""Spread a change of gains over some cycles."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Vector


class Ramp:
    r"""Move an array from where it is to a goal in a straight line.

    .. math::
        r_k = \frac{n - k}{n}\, r_0 + \frac{k}{n}\, r_{goal}, \qquad k = 1 .. n

    Laws ramp the square roots of their gains: every gain on the way is then positive
    semidefinite, and the damping that follows from it never lacks behind it.

    Args:
        start: First value, any shape.

    Attributes:
        value: The present value, updated in place.

    Thread: control.
    """

    def __init__(self, start: Vector) -> None:
        self.value = np.array(start, dtype=np.float64)
        self._from, self._to = self.value.copy(), self.value.copy()
        self._cycles = self._left = 0

    @property
    def arrived(self) -> bool:
        """Whether the goal is reached."""
        return self._left == 0

    def go(self, goal: Vector, cycles: int = 0) -> None:
        """Head for ``goal`` from the present value, and be there after ``cycles`` steps."""
        self._from[:], self._to[:] = self.value, goal
        self._cycles = self._left = cycles
        if not cycles:
            self.value[:] = goal

    def step(self) -> bool:
        """Move on by one cycle; return whether the value has changed."""
        if not self._left:
            return False
        self._left -= 1
        share = self._left / self._cycles
        np.multiply(self._from, share, self.value)
        self.value += (1.0 - share) * self._to
        return True
