# SPDX-License-Identifier: Apache-2.0
"""Stop moving joints as fast as limits of torque and torque rate allow."""

from __future__ import annotations

import math

import eigenpy
import numpy as np

from multipanda_py.state import ArmLimits, ArmState, Matrix, Vector

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


_dot, _add, _subtract, _multiply = np.dot, np.add, np.subtract, np.multiply
_absolute, _minimum, _maximum, _sqrt = np.absolute, np.minimum, np.maximum, np.sqrt


class MomentumBrake:
    r"""Brake a joint velocity w with a torque that always takes energy from it.

    .. math::
        \tau = -b\, p - \mathrm{sign}(w) \circ s, \qquad p = M w, \qquad
        b = \min_i \min\left(B, \sqrt{\tfrac{2 \kappa r_i}{|p_i|}}, \tfrac{L_i}{|p_i|} \right), \\
        s_i = \max(0,\; d_i - \max(0, b\, p_i\, \mathrm{sign}(w_i))), \qquad
        d_i = \min\left( \beta B m_i |w_i|,\; \sqrt{2 \kappa r_i m_i |w_i|},\; L_i \right), \qquad
        m_i = \frac{1}{(M^{-1})_{ii}}

    with largest torques L and torque rates r. The first part slows all joints down in proportion,
    along a straight line in joint space; the second lets a joint that could brake harder do so,
    as a friction of its own. Both are dissipative for whatever the mass matrix really is:
    :math:`\tau^T w = -b\, w^T M w - \sum_i |w_i| s_i \le 0`, so no error of the model, and no
    gyroscopic coupling, can make the brake drive the arm.

    Why the roots: a torque that a joint still exerts when it comes to rest throws it back, and
    taking a torque :math:`\tau` away at the rate r takes a momentum of :math:`\tau^2 / 2r`. So
    a joint may brake with no more than :math:`\sqrt{2 r |p|}`: it turns a stiff damper behind a
    rate limit, which is a limit cycle, into a stop. :math:`\kappa` below 1 leaves some of the rate
    for what is not known: delay, lag, other inertia. For the same reason the velocity is
    looked ahead by :math:`\Delta`, half of 7 ms, with the torque commanded last:
    :math:`w = \dot q + \Delta M^{-1} \tau_{k-1} + ...`, see :meth:`ahead`.

    Args:
        limits: Of the joints.
        rate: B, the bandwidth of the velocity loop for small motions [1/s].

    Thread: control.
    """

    RATE_SHARE = 0.8
    """Kappa: with more of the rate an arm that is 7 ms late swings, with less it stops later."""
    LEAD = 0.0035
    """Delta: how far ahead velocities are looked, at a delay and lag of 0 to 7 ms [s]."""
    OWN_SHARE = 0.7
    """Beta; the friction of light joints adds to the bandwidth of what they carry."""
    _TINY = 1e-12

    def __init__(self, limits: ArmLimits, rate: float) -> None:
        self.set_limits(limits)
        n = limits.n_joints
        self._mass, self._unit = eigenpy.LLT(np.eye(n)), np.eye(n)
        self._tau, self._size, self._other = (np.zeros(n) for _ in range(3))
        self._sign, self._momentum = np.zeros(n), np.zeros(n)
        self._light = np.ones(n)
        self.set_rate(rate)

    def set_limits(self, limits: ArmLimits) -> None:
        """Take limits of torque and torque rate over: those of the arm, not only of its model."""
        self.set_torque(limits.torque)
        self._twice_rate = 2.0 * self.RATE_SHARE * np.array(limits.torque_rate)

    def set_torque(self, torque: Vector) -> None:
        """Set the largest torques to brake with, (n,) [Nm]."""
        self._limit = torque

    def set_rate(self, rate: float) -> None:
        """Set the bandwidth for small motions [1/s]."""
        self._rate = rate

    @property
    def light_inertia(self) -> Vector:
        """Inertia of each joint with the others free, m of the last mass matrix, (n,)."""
        return self._light

    def weigh(self, mass: Matrix) -> None:
        """Take the mass matrix of this cycle, (n, n)."""
        self._mass.compute(mass)
        np.divide(1.0, self._mass.solve(self._unit).diagonal(), self._light)

    def ahead(self, tau: Vector) -> Vector:
        """Return what torques (n,) [Nm] will have added to the velocities, (n,) [rad/s]."""
        gained: Vector = self._mass.solve(tau).reshape(-1)  # of one joint it is a matrix
        return _multiply(gained, self.LEAD, gained)

    def stopping(self, torque: Vector) -> Vector:
        """Return the momentum that a joint has when it may brake with ``torque``, (n,)."""
        momentum: Vector = torque * torque / self._twice_rate
        return _maximum(momentum, torque / self._rate, out=momentum)

    def torque(self, mass: Matrix, velocity: Vector, together: float = 1.0) -> Vector:
        """Return the braking torques, (n,) [Nm]; overwritten by the next call.

        Args:
            mass: The one given to :meth:`weigh`, (n, n).
            velocity: w, (n,) [rad/s].
            together: Factor on the first part, 0 to 1: while rate limits still take an old torque
                away, torques that brake only together would not do so yet.
        """
        tau, size, other, sign = self._tau, self._size, self._other, self._sign
        momentum = _dot(mass, velocity, self._momentum)
        _maximum(_absolute(momentum, size), self._TINY, out=size)
        squared = float(np.divide(self._twice_rate, size, other).min())
        share = min(
            self._rate, math.sqrt(squared), float(np.divide(self._limit, size, other).min())
        )
        _multiply(momentum, -together * share, tau)
        np.sign(velocity, sign)
        _multiply(_absolute(velocity, size), self._light, size)
        _sqrt(_multiply(size, self._twice_rate, other), other)
        _minimum(other, self._limit, out=other)
        _minimum(other, _multiply(size, self.OWN_SHARE * self._rate, size), out=other)
        _maximum(_multiply(sign, tau, size), -other, out=size)  # minus what brakes already
        _minimum(size, 0.0, out=size)
        _add(other, size, other)
        return _subtract(tau, _multiply(sign, other, other), tau)
