# SPDX-License-Identifier: Apache-2.0
"""Speed limit and time-optimal braking of joints within limits of torque and torque rate."""

from __future__ import annotations

import math

import eigenpy
import numpy as np
from numpy import absolute, add, dot, maximum, minimum, multiply, sqrt, subtract

from multipanda_py.state import ArmLimits, ArmState, Matrix, Vector

BRAKING_RATE = 40.0
"""Decay rate of the excess speed [1/s]. Together with the other brakes of a floating arm, it is
stable at the supported latency."""

BRAKING_SPEED_FRACTION = 0.7
"""Fraction of a joint's speed limit above which the joint is always braked."""


def bound_speeds(max_speed: float, limits: ArmLimits) -> Vector:
    """Return the joint speeds above which an arm is braked, (n,) [rad/s].

    Args:
        max_speed: Maximum for all joints [rad/s]. For joints with a low speed limit, the maximum
            is 0.7 times this limit.
        limits: Joint limits of the arm.
    """
    return np.minimum(max_speed, BRAKING_SPEED_FRACTION * limits.velocity)


class SpeedBrake:
    """Brake of joints that exceed a speed bound.

    Equation::

        tau' = tau - b M (dq - clip(dq, -v, v))

    - tau, tau': Joint torques without and with the brake, (n,) [Nm].
    - b: Decay rate of the excess speed [1/s].
    - M: Inertia matrix, (n, n) [kg m^2].
    - dq: Joint velocities, (n,) [rad/s].
    - v: Speed bounds, (n,) [rad/s].

    The excess speed of each joint decays at rate b. Joints below their bound are not affected.

    Args:
        joints: Number of joints n.
        rate: Decay rate b of the excess speed [1/s].
        torque: Maximum torques of the brake, (n,) [Nm]; unlimited by default. If one joint exceeds
            its maximum, the torques of all joints are scaled down.

    Thread: control.
    """

    def __init__(
        self, joints: int, rate: float = BRAKING_RATE, torque: Vector | None = None
    ) -> None:
        self._excess, self._brake, self._rate = np.zeros(joints), np.zeros(joints), rate
        self._torque = torque

    def add(self, state: ArmState, speed_bounds: Vector, tau: Vector) -> None:
        """Add the braking torques to joint torques.

        Args:
            state: State of the arm.
            speed_bounds: Speed bounds v, (n,) [rad/s].
            tau: Joint torques, changed in place, (n,) [Nm].
        """
        excess = maximum(
            minimum(state.dq, speed_bounds, out=self._excess), -speed_bounds, out=self._excess
        )
        subtract(state.dq, excess, excess)
        if excess.any():
            multiply(dot(state.mass_matrix, excess, self._brake), self._rate, self._brake)
            if self._torque is not None:
                over = float((np.abs(self._brake) / self._torque).max())
                multiply(self._brake, 1.0 / max(over, 1.0), self._brake)
            subtract(tau, self._brake, tau)


class MomentumBrake:
    """Fast joint brake that stays within torque and torque-rate limits and cannot drive the arm.

    Equations, per joint i::

        tau = -b p - sign(w) s,                        p = M w
        b   = min_i min(B, sqrt(2 kappa r_i / |p_i|), L_i / |p_i|)
        s_i = max(0, d_i - max(0, b p_i sign(w_i)))
        d_i = min(beta B m_i |w_i|, sqrt(2 kappa r_i m_i |w_i|), L_i)
        m_i = 1 / (M^-1)_ii

    - tau: Braking torques, (n,) [Nm].
    - w: Predicted joint velocities, (n,) [rad/s], see below.
    - M: Inertia matrix, (n, n); p: momentum, (n,) [Nm s].
    - b: Common braking rate of all joints [1/s].
    - s_i: Additional braking torque of joint i, up to d_i [Nm].
    - B: Bandwidth of the velocity loop for small motions [1/s].
    - L, r: Torque limits [Nm] and torque-rate limits [Nm/s], (n,).
    - m_i: Inertia of joint i while the other joints are free [kg m^2].
    - kappa, beta: ``TORQUE_RATE_FRACTION`` and ``OWN_TORQUE_FRACTION``.

    The term -b p slows all joints in proportion. The term with s lets each joint use its remaining
    braking torque. Both are dissipative for any inertia matrix.

    The square roots follow from the torque-rate limit: removing a torque tau at rate r takes a
    momentum of tau^2 / (2 r). The prediction compensates the latency: w = dq + Delta M^-1 tau_0,
    with the measured velocities dq, the last commanded torques tau_0 and Delta =
    ``PREDICTION_TIME``.

    Args:
        limits: Joint limits of the arm.
        rate: Bandwidth B [1/s].

    Thread: control.
    """

    TORQUE_RATE_FRACTION = 0.8
    """Usable fraction kappa of the torque-rate limit. With a higher one, the brake oscillates at 7
    ms of latency; with a lower one, the arm stops later."""
    PREDICTION_TIME = 0.0035
    """Prediction time Delta of the velocities, for a delay and lag of 0 to 7 ms in total [s]."""
    OWN_TORQUE_FRACTION = 0.7
    """Factor beta on the torque s with which each joint brakes separately. It is below 1 because
    braking of light joints adds to the bandwidth of their links."""
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
        """Set the limits of torque and torque rate of the arm."""
        self.set_torque(limits.torque)
        self._twice_rate = 2.0 * self.TORQUE_RATE_FRACTION * np.array(limits.torque_rate)

    def set_torque(self, torque: Vector) -> None:
        """Set the maximum braking torques, (n,) [Nm]."""
        self._limit = torque

    def set_rate(self, rate: float) -> None:
        """Set the bandwidth B for small motions [1/s]."""
        self._rate = rate

    @property
    def light_inertia(self) -> Vector:
        """Inertia m_i of each joint while the other joints are free, (n,) [kg m^2]."""
        return self._light

    def weigh(self, mass: Matrix) -> None:
        """Set the mass matrix of this cycle, (n, n) [kg m^2]."""
        self._mass.compute(mass)
        np.divide(1.0, self._mass.solve(self._unit).diagonal(), self._light)

    def ahead(self, tau: Vector) -> Vector:
        """Return the velocity change by torques (n,) [Nm] in ``PREDICTION_TIME``, (n,) [rad/s]."""
        # For a single joint, eigenpy returns a matrix, so the result is flattened.
        gained: Vector = self._mass.solve(tau).reshape(-1)
        return multiply(gained, self.PREDICTION_TIME, gained)

    def stopping(self, torque: Vector) -> Vector:
        """Return the minimum momentum of each joint for a given braking torque, (n,) [Nm s].

        With less momentum, the joint would reverse.

        Args:
            torque: Braking torques, (n,) [Nm].
        """
        momentum: Vector = torque * torque / self._twice_rate
        return maximum(momentum, torque / self._rate, out=momentum)

    def torque(self, mass: Matrix, velocity: Vector, together: float = 1.0) -> Vector:
        """Return the braking torques, (n,) [Nm]. The next call overwrites them.

        Args:
            mass: Mass matrix that was set by ``weigh``, (n, n) [kg m^2].
            velocity: Predicted joint velocities w, (n,) [rad/s].
            together: Scale of the term -b p, 0 to 1, to fade the brake in.
        """
        tau, size, other, sign = self._tau, self._size, self._other, self._sign
        momentum = dot(mass, velocity, self._momentum)
        maximum(absolute(momentum, size), self._TINY, out=size)
        squared = float(np.divide(self._twice_rate, size, other).min())
        scale = min(
            self._rate, math.sqrt(squared), float(np.divide(self._limit, size, other).min())
        )
        multiply(momentum, -together * scale, tau)
        np.sign(velocity, sign)
        multiply(absolute(velocity, size), self._light, size)
        sqrt(multiply(size, self._twice_rate, other), other)
        minimum(other, self._limit, out=other)
        minimum(other, multiply(size, self.OWN_TORQUE_FRACTION * self._rate, size), out=other)
        # ``other`` is d. Subtract the torque with which the term -b p already brakes each joint.
        maximum(multiply(sign, tau, size), -other, out=size)
        minimum(size, 0.0, out=size)
        add(other, size, other)
        return subtract(tau, multiply(sign, other, other), tau)
