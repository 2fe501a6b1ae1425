# SPDX-License-Identifier: Apache-2.0
"""What every torque passes last, and what every state is checked for."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multipanda_py.realtime.events import Event
from multipanda_py.state import ArmLimits, ArmState, Vector

_add = np.add
_minimum, _maximum = np.minimum, np.maximum

VELOCITY_MARGIN = 1.1
"""Measured speed may exceed the datasheet's limit by this factor before it is a fault."""
POSITION_MARGIN = 0.02
"""Measured position may pass the limit by this much before it is a fault [rad]."""


def is_finite(vector: Vector) -> bool:
    """Return whether all elements are finite, by their sum: inf and nan both survive it."""
    return math.isfinite(sum(vector.tolist()))


class TorqueGuard:
    r"""Bound a finite torque in value and in rate, on both sides.

    .. math::
        \tau_k = \min(\max(\tau, \tau_{k-1} - \dot\tau_{max} T, -\tau_{max}),
        \tau_{k-1} + \dot\tau_{max} T, \tau_{max})

    Non-finite torques must not get here: a one-sided clamp would turn them into plausible
    ones. The caller tests :func:`is_finite` first.

    Args:
        limits: Joint limits of the robot, or of several that are bounded together; a robot with
            fewer joints than another has torques of zero where it has none.
        period: Cycle time [s].
    """

    def __init__(self, limits: ArmLimits | Sequence[ArmLimits], period: float) -> None:
        if isinstance(limits, ArmLimits):
            torque, rate = limits.torque, limits.torque_rate
        else:
            torque = np.zeros((len(limits), max(own.n_joints for own in limits)))
            rate = np.zeros_like(torque)
            for row, own in enumerate(limits):
                torque[row, : own.n_joints] = own.torque
                rate[row, : own.n_joints] = own.torque_rate
        self._high, self._low = np.array(torque), -torque
        self._steps = np.array([-rate, rate]) * period
        self._bounds = np.zeros_like(self._steps)
        self._lowest, self._highest = self._bounds

    def apply(self, tau: Vector, commanded: Vector) -> None:
        """Move ``commanded`` to ``tau`` as far as allowed.

        Args:
            tau: Wanted torques, (n,), or (arms, n) for robots that are bounded together [Nm].
            commanded: Those of the last cycle, of the same shape; overwritten.
        """
        lowest, highest = self._lowest, self._highest
        _add(self._steps, commanded, self._bounds)
        _maximum(lowest, self._low, out=lowest)
        _minimum(highest, self._high, out=highest)
        _maximum(tau, lowest, out=commanded)
        _minimum(commanded, highest, out=commanded)


class StateGuard:
    """Find out whether a measured state is one that a law may go on with."""

    def __init__(self, limits: ArmLimits) -> None:
        self._low = (limits.lower - POSITION_MARGIN).tolist()
        self._high = (limits.upper + POSITION_MARGIN).tolist()
        self._speed = (limits.velocity * VELOCITY_MARGIN).tolist()

    def check(self, state: ArmState) -> Event:
        """Return the first fault of a state, or ``Event.NONE``."""
        if not is_finite(state.q) or not is_finite(state.dq):
            return Event.NON_FINITE_STATE
        for q, low, high in zip(state.q.tolist(), self._low, self._high):
            if not low <= q <= high:
                return Event.POSITION_LIMIT
        for dq, speed in zip(state.dq.tolist(), self._speed):
            if not -speed <= dq <= speed:
                return Event.VELOCITY_LIMIT
        return Event.NONE

    def words_for(self, state: ArmState, fault: Event) -> str:
        """Say which joint, what was measured, and what is allowed."""
        if fault is Event.NON_FINITE_STATE:
            return (
                f"{state.name}: got q {state.q.tolist()}, dq {state.dq.tolist()}, allowed finite"
            )
        for joint in range(state.n_joints):
            q, dq = float(state.q[joint]), float(state.dq[joint])
            unit = state.limits.unit(joint)
            if fault is Event.POSITION_LIMIT and not self._low[joint] <= q <= self._high[joint]:
                return (
                    f"joint {joint + 1} of {state.name}: {q:.4f} {unit} is outside "
                    f"[{self._low[joint]:.4f}, {self._high[joint]:.4f}]"
                )
            if fault is Event.VELOCITY_LIMIT and abs(dq) > self._speed[joint]:
                return (
                    f"joint {joint + 1} of {state.name}: {dq:.3f} {unit}/s is outside "
                    f"+-{self._speed[joint]:.3f}"
                )
        return f"{state.name}: {fault.name.lower()}"
