# SPDX-License-Identifier: Apache-2.0
"""The last bound of a torque before the robot, and what is sent when the loop is silent."""

from __future__ import annotations

import math
from collections.abc import Sequence

RAMP_TIME = 0.02
"""In which the torque of a silent loop goes to zero [s]."""
LARGEST_STEP = 0.999
"""Between two commands; a Franka refuses 1 Nm, and its numbers have 7 digits [Nm]."""


class TorqueLimiter:
    r"""Bound torques in value and rate; shrink the last one while the loop is silent.

    .. math::
        \tau_{sent} = \mathrm{clamp}(\tau, \tau_{robot} \pm \Delta, \pm\tau_{max}), \qquad
        \tau_{silent}(t) = \tau_0 + \max(0, 1 - t / T_{ramp}) \, (\tau_{last} - \tau_0)

    :math:`\tau_{robot}` is what the robot says it executes, so that a lost command cannot
    become a step twice as large; :math:`\tau_0` is zero for arms that carry themselves. A torque
    above 20 Nm takes longer to shrink, because the rate goes first.

    Args:
        limits: Largest torques, (n,) [Nm].
        steps: Between two commands, (n,) [Nm]; a Franka's if None.
    """

    def __init__(self, limits: Sequence[float], steps: Sequence[float] | None = None) -> None:
        self._limits = list(limits)
        self._steps = [LARGEST_STEP] * len(self._limits) if steps is None else list(steps)
        self.start()

    def start(self, tau: Sequence[float] | None = None) -> None:
        """Begin a motion at a torque, (n,) [Nm]; at zero if None."""
        self._last = [0.0] * len(self._limits) if tau is None else list(tau)

    def answer(self, tau: Sequence[float], executed: Sequence[float]) -> list[float] | None:
        """Return what may be sent of a loop's torque, (n,) [Nm]; None if it is not finite.

        Args:
            tau: Of the loop, (n,) [Nm].
            executed: What the robot executes now, (n,) [Nm].
        """
        if not math.isfinite(sum(tau)):
            return None
        self._last = self._bound(tau, executed)
        return self._last

    def rehearse(self, executed: Sequence[float]) -> list[float]:
        """Do what :meth:`answer` does and change nothing, so that its code is at hand for it.

        Args:
            executed: What the robot executes now, (n,) [Nm], which is returned.
        """
        return self._bound(executed, executed)

    def silent(
        self, seconds: float, executed: Sequence[float], resting: Sequence[float] | None = None
    ) -> list[float]:
        """Return what to send when the loop has not answered for some time, (n,) [Nm].

        Args:
            seconds: Since it did.
            executed: What the robot executes now, (n,) [Nm].
            resting: What the arm needs without the loop, (n,) [Nm]; zero if None.
        """
        share = max(0.0, 1.0 - seconds / RAMP_TIME)
        if resting is None:
            return self._bound([share * tau for tau in self._last], executed)
        wanted = [own + share * (tau - own) for tau, own in zip(self._last, resting)]
        return self._bound(wanted, executed)

    def _bound(self, tau: Sequence[float], executed: Sequence[float]) -> list[float]:
        bounded = []
        for wanted, now, most, step in zip(tau, executed, self._limits, self._steps):
            if not (-step <= wanted - now <= step and -most <= wanted <= most):
                wanted = max(max(-most, now - step), min(min(most, now + step), wanted))
            bounded.append(wanted)
        return bounded
