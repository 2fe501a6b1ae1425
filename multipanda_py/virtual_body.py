# SPDX-License-Identifier: Apache-2.0
"""A virtual mass on a spring and damper, moved by a measured wrench."""

from __future__ import annotations

import math

import numpy as np
import pinocchio as pin

from multipanda_py.state import Vector

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract
_exp3, _log3 = pin.exp3, pin.log3


class VirtualBody:
    r"""Integrate :math:`M \ddot\delta + D \dot\delta + K \delta = F` within bounds.

    Semi-implicit Euler with the damper taken implicitly, which is stable for any damping:

    .. math::
        v_{k+1} = (M + h D)^{-1} \left( M v_k + h (F_k - K \delta_k) \right)

    Translation and rotation are apart: :math:`\delta_{p} \leftarrow \delta_p + h v`, and
    :math:`\delta_\phi \leftarrow \log\left( \exp(h \omega) \exp(\delta_\phi) \right)` about fixed
    axes. M, D and K are diagonal along them.

    At a bound the displacement stops there and the outward velocity is taken away, so that
    nothing is wound up and the body turns back at once. Where a bound has become narrower than
    the displacement, the body comes in at the largest speed.

    Args:
        period: Time step h [s].

    Attributes:
        displacement: :math:`\delta_p` [m] and :math:`\delta_\phi` [rad], (6,).
        translation: :math:`\delta_p`, (3,), a view.
        rotation: :math:`\delta_\phi`, (3,), a view.
        velocity: v [m/s] and :math:`\omega` [rad/s], (6,).
        wrench: The wrench that moves it: filtered, without bias and deadband, (6,) [N, Nm].

    Thread: control.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self.displacement, self.velocity, self.wrench = (np.zeros(6) for _ in range(3))
        self.translation, self.rotation = self.displacement[:3], self.displacement[3:]
        self._linear, self._angular = self.velocity[:3], self.velocity[3:]
        self._force, self._torque = self.wrench[:3], self.wrench[3:]
        self._filtered, self._bias, self._change, self._push = (np.zeros(6) for _ in range(4))
        self._step = np.zeros(3)
        self._tare_left = self._tare_cycles = 0

    def set_gains(self, mass: Vector, damping: Vector, stiffness: Vector) -> None:
        """Set the diagonals of M [kg, kg m^2], D and K, (6,) each."""
        h = self._period
        self._mass, self._stiffness = np.array(mass), np.array(stiffness)
        self._solve = 1.0 / (mass + h * damping)

    def set_bounds(self, displacement: tuple[float, float], speed: tuple[float, float]) -> None:
        """Set the largest displacements [m, rad] and speeds [m/s, rad/s]."""
        self._max_displacement, self._max_speed = displacement, speed

    def set_filter(self, time: float, deadband: tuple[float, float]) -> None:
        """Set the low-pass time constant [s] and the deadbands of force [N] and torque [Nm]."""
        self._weight = 1.0 - math.exp(-self._period / time) if time > 0.0 else 1.0
        self._deadband = deadband

    def rest(self, tare_time: float) -> None:
        """Be at rest at zero, and take the mean wrench of ``tare_time`` [s] for zero."""
        for array in (self.displacement, self.velocity, self.wrench, self._filtered, self._bias):
            array[:] = 0.0
        self._tare_left = self._tare_cycles = round(tare_time / self._period)

    def step(self, measured: Vector) -> None:
        """Move on by one period under a measured wrench, (6,) [N, Nm]."""
        if self._tare_left:
            self._tare_left -= 1
            self._bias += measured / self._tare_cycles
            return
        change = _subtract(measured, self._bias, self._change)
        _subtract(change, self._filtered, change)
        _add(self._filtered, _multiply(change, self._weight, change), self._filtered)
        _multiply(self._force_of(0, 3, 0), 1.0, self._force)
        self._integrate()
