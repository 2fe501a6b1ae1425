# SPDX-License-Identifier: Apache-2.0
"""The integral part of a joint PID that does not wind up."""

from __future__ import annotations

import numpy as np

from multipanda_py.limits import ArmLimits
from multipanda_py.state import ArmState, Vector

_add, _dot, _multiply = np.add, np.dot, np.multiply
SATURATED = 0.95
"""Share of a torque limit from which a joint counts as giving all it has."""


class PlanIntegral:
    r"""Integrate the error of joints behind a plan, where the plan is to be reached.

    .. math::
        \dot I = k_i \beta K (e - s\, M^{-1} J_u^T \Lambda_u J_u e), \qquad |I_j| \le I_{max,j},
        \qquad \beta_j = \min(1, \zeta_j) \min(1, \sqrt{K_j / K_{0,j}})

    with the share *s* that a controlled force has of its direction *u*: there, where a contact
    keeps the tool from the plan for good, the integral would grow without an end and fight the
    one of the force. Springs softer than the default :math:`K_0`, or less damped, bear only an
    integral that is as much slower, by :math:`\beta`; else they swing. A joint that gives all its
    torque integrates only back.

    Args:
        limits: Of the joints.
        period: Cycle time [s].
        usual: Default stiffness K_0, (n,) [Nm/rad].

    Attributes:
        torque: I, (n,) [Nm].

    Thread: control.
    """

    def __init__(self, limits: ArmLimits, period: float, usual: Vector) -> None:
        n = limits.n_joints
        self._period, self._full = period, SATURATED * limits.torque
        self._torque_limit, self._usual = limits.torque, usual
        self.torque, self._step = np.zeros(n), np.zeros(n)
        self._gain, self._most = np.zeros(n), np.zeros(n)

    def set_gains(self, rate: float, stiffness: Vector, ratio: Vector, share: float) -> None:
        """Set k_i [1/s], K (n,) [Nm/rad], its damping ratios, and the share that I may have."""
        slow = np.minimum(ratio, 1.0) * np.minimum(np.sqrt(stiffness / self._usual), 1.0)
        _multiply(stiffness, rate * self._period * slow, self._gain)
        _multiply(self._torque_limit, share, self._most)

    def reset(self) -> None:
        """Forget."""
        self.torque[:] = 0.0

    def begin(self, torque: Vector) -> None:
        """Start with a torque, (n,) [Nm], clipped to the bounds of I."""
        np.minimum(np.maximum(torque, -self._most), self._most, out=self.torque)

    def step(self, state: ArmState, error: Vector, direction: Vector, share: float) -> Vector:
        """Take one cycle's error in, (n,) [rad]; return I.

        Args:
            state: The arm.
            error: From the measured positions to the plan.
            direction: u, along the axes of the base, (6,).
            share: s, 0 to 1.
        """
        step = self._step
        if share > 0.0:
            ways = state.operational_space().minv_jt.dot(direction)
            along = _dot(direction, state.jacobian)
            mobility = float(_dot(along, ways))
            if mobility > 0.0:
                part = share * float(_dot(along, error)) / mobility
                error = error - part * ways
        _multiply(self._gain, error, step)
        pushes = (np.abs(state.tau) > self._full) & (state.tau * step > 0.0)
        if pushes.any():
            step[pushes] = 0.0
        torque = _add(self.torque, step, self.torque)
        np.maximum(torque, -self._most, out=torque)
        return np.minimum(torque, self._most, out=torque)
