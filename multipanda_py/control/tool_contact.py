# SPDX-License-Identifier: Apache-2.0
"""Contact estimate of a tool from the requested force and the estimated external one."""

from __future__ import annotations

import math
from collections.abc import Sequence

SMALLEST = 0.5
"""Requested force from which contact is estimated [N]."""
BEGINS, ENDS = 0.5, 0.2
"""Fractions of the requested force: above the first contact begins, below the second it ends."""
HOLD = 0.5
"""Time below the second fraction after which contact has ended [s]."""
FILTER = 0.01
"""Time constant of the low-pass on the reaction force [s]."""


class ToolContact:
    r"""Estimate whether a tool presses on something with the force that is requested of it.

    With the requested force :math:`F_d`, the estimated external force :math:`F_{ext}` and the
    reaction :math:`r = -F_{ext}^T F_d / \|F_d\|`, low-passed,

    .. math:: \text{contact begins with } r > 0.5\, \|F_d\|, \qquad
        \text{and ends after } r < 0.2\, \|F_d\| \text{ for 0.5 s.}

    Both are needed. The external force alone is also that of an unknown payload or of a biased
    sensor, and the requested force alone that of a tool on its way to the surface. A tool that
    bounces stays in contact.

    Args:
        period: Cycle time [s].

    Attributes:
        is_on: Whether there is contact.

    Thread: control.
    """

    __slots__ = ("_follow", "_hold", "_left", "_reaction", "is_on")

    def __init__(self, period: float) -> None:
        self._follow, self._hold = period / (FILTER + period), max(1, round(HOLD / period))
        self.reset()

    def reset(self) -> None:
        """Begin without contact and without an earlier measurement."""
        self.is_on, self._left = False, 0
        self._reaction: float | None = None

    def pause(self) -> None:
        """Restart the low-pass and the hold time, as cycles are missing before the next one."""
        self._reaction, self._left = None, 1

    def update(self, requested: Sequence[float], external: Sequence[float]) -> None:
        """Update by the forces of one cycle, both along the same axes, (3,) [N]."""
        (x, y, z), (fx, fy, fz) = requested, external
        size = math.sqrt(x * x + y * y + z * z)
        if size < SMALLEST:
            reaction, size = 0.0, SMALLEST
        else:
            reaction = -(x * fx + y * fy + z * fz) / size
        if self._reaction is not None:
            reaction = self._reaction + self._follow * (reaction - self._reaction)
        self._reaction = reaction
        if reaction > (ENDS if self.is_on else BEGINS) * size:
            self.is_on, self._left = True, self._hold
        elif self.is_on:
            self._left -= 1
            self.is_on = self._left > 0
