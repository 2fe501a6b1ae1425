# SPDX-License-Identifier: Apache-2.0
"""Limiter of the torques sent to the robot, and torque decay when the loop does not respond."""

from __future__ import annotations

import math
from collections.abc import Sequence

RAMP_TIME = 0.02
"""Time in which the torque decays to zero when the loop does not respond [s]."""
MAX_TORQUE_STEP = 0.999
"""Maximum torque change between two commands [Nm]. A Franka robot rejects a change of 1 Nm. The
margin allows for rounding to 7 digits."""


class TorqueLimiter:
    r"""Limiter of torques in value and rate, with a decay while the loop does not respond.

    .. math:: \tau_{sent} = \mathrm{clamp}(\tau, \tau_{robot} \pm \Delta, \pm\tau_{max}).

    Here :math:`\tau` is the desired torque, :math:`\Delta` the maximum step, :math:`\tau_{max}`
    the torque limit, and :math:`\tau_{robot}` the torque that the robot executes now. Without a
    command of the loop for the time t, the desired torque is

    .. math:: \tau(t) = \tau_0 + \max(0, 1 - t / T_{ramp}) \, (\tau_{last} - \tau_0).

    Here :math:`\tau_{last}` is the last commanded torque and :math:`T_{ramp}` is
    :data:`RAMP_TIME`. :math:`\tau_0` is the torque that the arm needs without the loop: zero for
    arms that compensate gravity and brake by themselves. The step limit also applies to the decay.

    Args:
        limits: Maximum torques, (n,) [Nm].
        steps: Maximum changes between two commands, (n,) [Nm]; None for :data:`MAX_TORQUE_STEP`.
    """

    def __init__(self, limits: Sequence[float], steps: Sequence[float] | None = None) -> None:
        self._limits = list(limits)
        self._steps = [MAX_TORQUE_STEP] * len(self._limits) if steps is None else list(steps)
        self.start()

    def start(self, tau: Sequence[float] | None = None) -> None:
        """Reset the last commanded torque at the start of a motion.

        Args:
            tau: Last commanded torque, (n,) [Nm]; None means zero.
        """
        self._last = [0.0] * len(self._limits) if tau is None else list(tau)

    def answer(self, tau: Sequence[float], executed: Sequence[float]) -> list[float] | None:
        """Return the limited torque of the loop, (n,) [Nm]; None if it is not finite.

        Args:
            tau: Torque of the loop, (n,) [Nm].
            executed: Torque that the robot executes now, (n,) [Nm].
        """
        if not math.isfinite(sum(tau)):
            return None
        self._last = self._bound(tau, executed)
        return self._last

    def rehearse(self, executed: Sequence[float]) -> list[float]:
        """Execute :meth:`answer` without effect, so that its code is in the processor caches.

        Args:
            executed: Torque that the robot executes now, (n,) [Nm].

        Returns:
            ``executed``, limited to the maximum torques, (n,) [Nm].
        """
        return self._bound(executed, executed)

    def silent(
        self, seconds: float, executed: Sequence[float], resting: Sequence[float] | None = None
    ) -> list[float]:
        """Return the torque to send when the loop has not responded for some time, (n,) [Nm].

        Args:
            seconds: Time since the last response [s].
            executed: Torque that the robot executes now, (n,) [Nm].
            resting: Torque that the arm needs without the loop, (n,) [Nm]; None means zero.
        """
        scale = max(0.0, 1.0 - seconds / RAMP_TIME)
        if resting is None:
            return self._bound([scale * tau for tau in self._last], executed)
        desired = [own + scale * (tau - own) for tau, own in zip(self._last, resting)]
        return self._bound(desired, executed)

    def _bound(self, tau: Sequence[float], executed: Sequence[float]) -> list[float]:
        bounded = []
        for desired, now, limit, step in zip(tau, executed, self._limits, self._steps):
            if not (-step <= desired - now <= step and -limit <= desired <= limit):
                desired = max(max(-limit, now - step), min(min(limit, now + step), desired))
            bounded.append(desired)
        return bounded
