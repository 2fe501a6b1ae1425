# SPDX-License-Identifier: Apache-2.0
"""The last bound of a torque before the robot, and what is sent when the loop is silent."""

from __future__ import annotations

import math
from collections.abc import Sequence

RAMP_TIME = 0.02
"""In which the torque of a silent loop goes to zero [s]."""
LARGEST_STEP = 0.999
"""Between two commands; the robot refuses 1 Nm, and its numbers have 7 digits [Nm]."""


class TorqueLimiter:
    r"""Bound torques in value and rate; shrink the last one while the loop is silent.

    .. math::
        \tau_{sent} = \mathrm{clamp}(\tau, \tau_{robot} \pm 1\,Nm, \pm\tau_{max}), \qquad
        \tau_{silent}(t) = \max(0, 1 - t / T_{ramp}) \, \tau_{last}

    :math:`\tau_{robot}` is what the robot says it executes, so that a lost command cannot
    become a step twice as large. A torque above 20 Nm takes longer to shrink, because the
    rate goes first.

    Args:
        limits: Largest torques, (7,) [Nm].
    """

    def __init__(self, limits: Sequence[float]) -> None:
        self._limits = list(limits)
        self.start()

    def start(self) -> None:
        """Begin at zero torque: a motion starts."""
        self._last = [0.0] * 7

    def answer(self, tau: Sequence[float], executed: Sequence[float]) -> list[float] | None:
        """Return what may be sent of a loop's torque, (7,) [Nm]; None if it is not finite.

        Args:
            tau: Of the loop, (7,) [Nm].
            executed: What the robot executes now, (7,) [Nm].
        """
        if not math.isfinite(sum(tau)):
            return None
        self._last = self._bound(tau, executed)
        return self._last

    def silent(self, seconds: float, executed: Sequence[float]) -> list[float]:
        """Return what to send when the loop has not answered for some time, (7,) [Nm]."""
        share = max(0.0, 1.0 - seconds / RAMP_TIME)
        return self._bound([share * tau for tau in self._last], executed)

    def _bound(self, tau: Sequence[float], executed: Sequence[float]) -> list[float]:
        step, bounded = LARGEST_STEP, []
        for wanted, now, most in zip(tau, executed, self._limits):
            if not (-step <= wanted - now <= step and -most <= wanted <= most):
                wanted = max(max(-most, now - step), min(min(most, now + step), wanted))
            bounded.append(wanted)
        return bounded
