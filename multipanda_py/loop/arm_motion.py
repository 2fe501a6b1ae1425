# SPDX-License-Identifier: Apache-2.0
"""The last word on the joint positions of an arm that is not under torque control."""

from __future__ import annotations

from dataclasses import replace

from multipanda_py.planning.motion_limiter import MotionLimiter
from multipanda_py.state import INTERFACES, ArmState, Vector

_ACCELERATION, _JERK = 0.93, 0.77
"""Fractions of the limits of acceleration and jerk that commands use. They are below those of the
drivers of real arms, so that these pass commands unchanged. Robots judge rounded positions."""


class ArmMotion:
    """Take commands of positions or velocities to ``joint_command``, or brake without any.

    Args:
        state: Of the arm.
        period: Cycle time [s].

    Thread: control.
    """

    def __init__(self, state: ArmState, period: float) -> None:
        self._state, self._period = state, period
        limits = state.limits
        kept = replace(
            limits, acceleration=_ACCELERATION * limits.acceleration, jerk=_JERK * limits.jerk
        )
        self._limiter = MotionLimiter(kept, period, state.joint_command)
        self._follow = self._limiter.follow
        self._resting_cycles = 0

    @property
    def rest_time(self) -> float:
        """Time since which no motion has been commanded [s]."""
        return self._resting_cycles * self._period

    def start(self, interface: str) -> None:
        """Begin at the measured positions, at rest."""
        limiter = self._limiter
        is_rate = interface == INTERFACES[2]
        self._follow = limiter.follow_rate if is_rate else limiter.follow
        limiter.start(self._state.q)

    def resume(self) -> None:
        """Go on from commands that were put back to what they had been."""
        q, dq, ddq = self._state.joint_command.copy()
        self._limiter.start(q, dq - 0.5 * self._period * ddq, ddq)

    def step(self, wanted: Vector | None) -> None:
        """Move the command on by one period, towards what is wanted or to rest.

        Args:
            wanted: Positions (n,) [rad] or velocities (n,) [rad/s], finite; None to stop.
        """
        limiter = self._limiter
        if not limiter.is_untouched:  # the arm does not execute it, but is there
            limiter.start(limiter.q)
        if wanted is None:
            limiter.brake()
        else:
            self._follow(wanted)
        self._resting_cycles = self._resting_cycles + 1 if limiter.at_rest else 0
