# SPDX-License-Identifier: Apache-2.0
"""A brake for arms that float: it acts on what is faster than allowed, and on nothing else."""

from __future__ import annotations

import numpy as np

from multipanda_py.limits import ArmLimits
from multipanda_py.state import ArmState, Vector

_dot, _subtract, _multiply = np.dot, np.subtract, np.multiply
_minimum, _maximum = np.minimum, np.maximum

RATE = 40.0
"""With which speed beyond the bound dies away [1/s]: with the other brakes of a floating law
within what latency stands."""

FASTEST = 0.7
"""Share of a joint's speed limit from which it is braked, whatever was asked for."""


def bound_speeds(most: float, limits: ArmLimits) -> Vector:
    """Return the joint speeds from which an arm is braked that is to stay below one, (n,) [rad/s].

    A slow joint is braked before its own limit, which is a fault.
    """
    return np.minimum(most, FASTEST * limits.velocity)


class SpeedBrake:
    r"""Slow joints down that are faster than a bound.

    .. math:: \tau \mathrel{-}= b\, M\, (\dot q - \mathrm{clip}(\dot q, \pm v))

    Each excess dies away by itself with b, and no joint that is slow enough is touched. A
    constant torque :math:`\tau_e` on a floating arm, such as a load that nobody told of, ends at
    :math:`v + (M^{-1} \tau_e)_i / b` instead of growing with time.

    Args:
        joints: Number of joints, n.
        rate: Rate b at which the excess speed decays [1/s].
        torque: Maximum torques of the brake, (n,) [Nm]. All joints are scaled down together. None
            is no bound.

    Thread: control.
    """

    def __init__(self, joints: int, rate: float = RATE, torque: Vector | None = None) -> None:
        self._excess, self._brake, self._rate = np.zeros(joints), np.zeros(joints), rate
        self._torque = torque

    def add(self, state: ArmState, most: Vector, tau: Vector) -> None:
        """Take from ``tau``, (n,) [Nm], what brakes joints faster than ``most``, (n,) [rad/s]."""
        excess = _maximum(_minimum(state.dq, most, out=self._excess), -most, out=self._excess)
        _subtract(state.dq, excess, excess)
        if excess.any():
            _multiply(_dot(state.mass, excess, self._brake), self._rate, self._brake)
            if self._torque is not None:
                over = float((np.abs(self._brake) / self._torque).max())
                _multiply(self._brake, 1.0 / max(over, 1.0), self._brake)
            _subtract(tau, self._brake, tau)
