# SPDX-License-Identifier: Apache-2.0
"""Limits of every commanded torque, and checks of every measured state."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy import add, maximum, minimum

from multipanda_py.realtime.events import Event
from multipanda_py.state import ArmLimits, ArmState, Vector

VELOCITY_MARGIN = 1.1
"""Factor on the velocity limit of the datasheet above which a measured speed is a fault."""
POSITION_MARGIN = 0.02
"""Distance beyond a position limit from which a measured position is a fault [rad]."""


def is_finite(vector: Vector) -> bool:
    """Return True if all elements are finite."""
    return math.isfinite(sum(vector.tolist()))


class TorqueGuard:
    r"""Limiter of finite torques in value and rate.

    .. math::
        \tau_k = \min(\max(\tau, \tau_{k-1} - \dot\tau_{max} T, -\tau_{max}),
        \tau_{k-1} + \dot\tau_{max} T, \tau_{max}).

    Here :math:`\tau` is the desired torque, :math:`\tau_k` the commanded torque of cycle k and T
    the cycle time. The limits of torque and torque rate are :math:`\tau_{max}` and
    :math:`\dot\tau_{max}`. The caller must check that desired torques are finite
    (:func:`is_finite`), because the limiter would hide infinite ones.

    Args:
        limits: Joint limits of one robot, or of each of several robots. If these have different
            numbers of joints, torques of missing joints become zero.
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
        """Move ``commanded`` towards ``tau`` within the limits.

        Args:
            tau: Desired torques [Nm], (n,) for one robot or (robots, n) for several.
            commanded: Torques of the last cycle, of the same shape; overwritten.
        """
        lowest, highest = self._lowest, self._highest
        add(self._steps, commanded, self._bounds)
        maximum(lowest, self._low, out=lowest)
        minimum(highest, self._high, out=highest)
        maximum(tau, lowest, out=commanded)
        minimum(commanded, highest, out=commanded)


class StateGuard:
    """Check that a measured state is finite and within joint limits."""

    def __init__(self, limits: ArmLimits) -> None:
        self._low = (limits.lower - POSITION_MARGIN).tolist()
        self._high = (limits.upper + POSITION_MARGIN).tolist()
        self._speed = (limits.velocity * VELOCITY_MARGIN).tolist()

    def check(self, state: ArmState) -> Event:
        """Check positions and velocities of an arm.

        Returns:
            First fault that is found; ``Event.NONE`` for a valid state.
        """
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
        """Describe a fault of a state: joint, measured value and allowed range."""
        if fault is Event.NON_FINITE_STATE:
            return f"{state.name}: q {state.q.tolist()}, dq {state.dq.tolist()} is not finite"
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
