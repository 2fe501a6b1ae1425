# SPDX-License-Identifier: Apache-2.0
"""Damping and holding torques for an arm near singular configurations."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import eigenpy
import numpy as np
from numpy import multiply

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.state import ArmState, Vector

MAX_RATE = 40.0
"""Maximum damping rate of a singular motion [1/s]."""
_MIN_EIGENVALUE = 1e-9  # Lower bound of an eigenvalue that is used as a divisor [1/kg].


def curvature(state: ArmState, direction: Vector, wrench: Vector) -> float:
    """Return F^T dJ(u) u: the product of a wrench and the curvature acceleration of the tool.

    Equations::

        dJ(u) u = [sum_i (2 c_i - z_i u_i) x v_i u_i; sum_i c_i x z_i u_i]
        c_i = sum_(j <= i) z_j u_j

    - v_i, z_i: Linear and angular part of column i of the Jacobian J.
    - dJ(u): Derivative of J along u. dJ(u) u is the tool acceleration at constant u.
    - c_i: Angular velocity of link i.

    Args:
        state: State of the arm.
        direction: Joint velocities u, (n,).
        wrench: Wrench F on the tool along the base axes, (6,) [N, Nm].
    """
    columns = state.jacobian * direction
    linear, angular = columns[:3], columns[3:]
    turned = np.cumsum(angular, axis=1)
    fx, fy, fz, tx, ty, tz = wrench.tolist()
    force = np.array(((0.0, -fz, fy), (fz, 0.0, -fx), (-fy, fx, 0.0)))
    torque = np.array(((0.0, -tz, ty), (tz, 0.0, -tx), (-ty, tx, 0.0)))
    bent = linear * force.dot(2.0 * turned - angular) + angular * torque.dot(turned)
    return float(bent.sum())


class SingularityDamping:
    """Damping wrench against the pendulum-like motion of an arm near a singular configuration.

    Equations::

        F_d   = -sum_(w_i < w_0) v_i rho_i / w_i v_i^T dx
        rho_i = (1 - w_i / w_0) min(sqrt(d_i^2 + 4 max(k_i, 0)) - d_i, MAX_RATE)
        d_i   = w_i v_i^T D v_i
        k_i   = -F^T dJ(u_i) u_i
        u_i   = M^-1 J^T v_i / sqrt(w_i)

    - F_d: Damping wrench on the tool, (6,) [N, Nm].
    - J, M: Jacobian of the tool and inertia matrix of the arm.
    - w_i, v_i: Eigenvalues and eigenvectors of J M^-1 J^T.
    - w_0: ``TaskInertia.MIN_MANIPULABILITY``.
    - dx: Twist of the tool, (6,) [m/s, rad/s].
    - D: Damping of the spring, (6, 6).
    - F: Spring wrench, (6,) [N, Nm].
    - u_i: Joint motion of unit kinetic energy along v_i, (n,).
    - k_i: Geometric stiffness along u_i, see ``curvature`` [1/s^2].
    - d_i: Damping along u_i by the spring [1/s].
    - rho_i: Damping that is missing for critical damping [1/s], faded in below w_0.

    If the target is out of reach, the stretched arm swings like a pendulum, because the damping of
    the spring vanishes. F_d makes this motion critically damped and is dissipative.

    Thread: control.
    """

    def damp(
        self, state: ArmState, wrench: Vector, damping: Callable[[Vector], float]
    ) -> Vector | None:
        """Return the damping wrench in the base, (6,) [N, Nm]; None away from singularities.

        Args:
            state: State of the arm.
            wrench: Spring wrench along the base axes, (6,) [N, Nm].
            damping: Function that returns the power v^T D v at a unit twist v in the base, (6,).
        """
        space = state.operational_space()
        if space.damping == 0.0:
            return None
        values, vectors = space.eigen()
        total = None
        for index, w in enumerate(values.tolist()):
            fraction = 1.0 - w / TaskInertia.MIN_MANIPULABILITY
            if fraction <= 0.0:
                break
            lost = vectors[:, index]
            size = max(w, _MIN_EIGENVALUE)
            direction = space.minv_jt.dot(lost) / math.sqrt(size)
            stiffness = -curvature(state, direction, wrench)
            if stiffness <= 0.0:
                continue
            own = size * damping(lost)
            rate = fraction * min(math.sqrt(own * own + 4.0 * stiffness) - own, MAX_RATE)
            part = lost * (-rate / size * float(lost.dot(state.twist_ee_in_base)))
            total = part if total is None else total + part
        return total

    def damp_spring(
        self, state: ArmState, spring: CartesianSpring, spring_scale: float
    ) -> Vector | None:
        """Return the damping wrench for a Cartesian spring; None away from singularities.

        Args:
            state: State of the arm.
            spring: Spring after ``measure`` in this cycle.
            spring_scale: Scale of the spring wrench.
        """
        if not spring.is_singular:
            return None
        wrench = spring_scale * spring.spring_wrench()
        return self.damp(state, wrench, spring.damping_along)


Mode: TypeAlias = tuple[float, float, Vector, Vector]
"""Fade factor f, required stiffness k [1/s^2], motion u (n,) and its momentum M u (n,)."""

ROTATION_LEVER = math.sqrt(0.05)
"""Length that converts rotations to translations [m]."""
HELD_MOBILITY = 0.01
"""Mobility of a motion of the tool below which the motion is held [1/kg]."""
MIN_HOLD_STIFFNESS = 16.0
"""Minimum stiffness per unit inertia of a held motion [1/s^2]."""
FADE_STIFFNESS = 50.0
"""Tool stiffness along a direction below which its hold fades out [N/m]."""
TORQUE_FRACTION = 0.05
"""Fraction of the torque limits up to which unmodelled torques are held."""
_SCALE = np.array([1.0] * 3 + [ROTATION_LEVER] * 3)
_PAIRS, _INVERSE = np.outer(_SCALE, _SCALE), 1.0 / _SCALE
_MIN_DIVISOR = 1e-12  # Lower bound of a mobility that is used as a divisor [1/kg].


class SingularityHold:
    """Torques that hold an arm against unmodelled torques near singular configurations.

    Equations, with S = diag(1, 1, 1, l, l, l)::

        S J M^-1 J^T S = V diag(w) V^T
        u_i = M^-1 J^T S v_i / sqrt(w_i)
        tau = -sum_(w_i < w_0) f_i M u_i (k_i y_i + 2 sqrt(k_i) e_i)
        k_i = max(0, k_0 - omega_i^2)
        e_i = u_i^T M (dq - integral(M^-1 (tau_cmd - c)))

    - tau: Holding torques, (n,) [Nm].
    - J: Jacobian, (6, n); M: inertia matrix, (n, n); l: ``ROTATION_LEVER`` [m].
    - w_i, v_i: Eigenvalues (mobilities) [1/kg] and eigenvectors; w_0: ``HELD_MOBILITY``.
    - u_i: Joint motion of unit kinetic energy along v_i, (n,).
    - omega_i^2 = (J u_i)^T K J u_i: Stiffness of the tool spring K along u_i [1/s^2].
    - k_i: Stiffness that the hold adds [1/s^2]; k_0: ``MIN_HOLD_STIFFNESS`` [1/s^2].
    - y_i: Deflection along u_i; e_i: speed along u_i that commanded torques do not explain.
    - dq: Joint velocities [rad/s]; tau_cmd: commanded torques [Nm]; c: Coriolis torques [Nm].
    - f_i: Fade factor, 0 to 1.

    At a singular configuration, the tool spring has no stiffness along some joint motions u_i. The
    hold adds a spring and a damper along u_i against friction or an unknown payload. The torque of
    the added spring is limited to 5 % of the torque limits. The hold does not oppose motion caused
    by the tool spring, and is dissipative apart from the energy stored in its springs.

    f_i rises as w_i decreases from w_0 to half of it, and as the manipulability decreases from
    0.02 to 0.016 1/kg. It decreases to zero for tool springs below 50 N/m.

    Args:
        arm: Description of the arm.
        period: Cycle time [s].
        stiffness: Function that returns the stiffness v^T K v of the tool spring along a twist v
            in the base, (6,).

    Attributes:
        is_near: True if the arm was near a singular configuration in the last ``add``.

    Thread: control.
    """

    def __init__(
        self, arm: ArmDescription, period: float, stiffness: Callable[[Vector], float]
    ) -> None:
        n, self._stiffness = arm.n_joints, stiffness
        self._max, self._period = TORQUE_FRACTION * arm.limits.torque, period
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._scaled = np.zeros((6, 6))
        # Rows of ``_held``: joint deflections [rad], and joint speeds that commanded torques do
        # not explain [rad/s].
        self._held, self._torque, self._dq = np.zeros((2, n)), np.zeros(n), np.zeros(n)
        self._before = np.zeros(n)
        self.is_near = self._resumes = False

    def reset(self) -> None:
        """Clear the deflections of the hold, and discard the torques of ``resume``."""
        self.is_near = self._resumes = False

    def resume(self, state: ArmState, tau: Vector) -> Vector:
        """Prepare the first ``add`` to continue torques from before the activation.

        Args:
            state: State of the arm at rest.
            tau: Torques that kept the arm at rest before the activation, (n,) [Nm].

        Returns:
            Part of ``tau`` along u_i, which the hold exerts, (n,) [Nm]. The controllet must exert
            the rest.
        """
        held = np.zeros(len(tau))
        if not tau.any() or state.operational_space().damping == 0.0:
            return held
        self._before[:], self._resumes = tau, True
        for fading, needed, motion, momentum in self._held_modes(state):
            if needed > 0.0:
                max_value, force = float(np.abs(motion).dot(self._max)), float(motion.dot(tau))
                held += fading * min(max(force, -max_value), max_value) * momentum
        return held

    def add(self, state: ArmState, tau: Vector) -> None:
        """Add the holding torques to the torques of the controllet.

        Args:
            state: State of the arm.
            tau: Torques of the controllet, (n,) [Nm]; overwritten by the sum.
        """
        if state.operational_space().damping == 0.0:
            self.is_near = self._resumes = False
            return
        if not self.is_near:
            self.is_near = True
            self._held[:] = self._torque[:] = 0.0
            self._dq[:] = state.dq
        if self._resumes:
            self._resumes = False
            self._deflect(state, self._before - tau)
        self._hold(state)
        self._dq[:] = state.dq
        tau += self._torque

    def _deflect(self, state: ArmState, lacking: Vector) -> None:
        for _, needed, motion, _ in self._held_modes(state):
            if needed > 0.0:
                self._held[0] -= float(motion.dot(lacking)) / needed * motion

    def _held_modes(self, state: ArmState) -> Iterator[Mode]:
        space, eigen = state.operational_space(), self._eigen
        nearness = min(1.0, 5.0 - 5.0 * space.manipulability / TaskInertia.MIN_MANIPULABILITY)
        eigen.compute(multiply(space.inertia_inv, _PAIRS, self._scaled))
        mobilities, vectors = eigen.eigenvalues(), eigen.eigenvectors()
        for index, mobility in enumerate(mobilities.tolist()):
            fading = nearness * min(1.0, 2.0 - 2.0 * mobility / HELD_MOBILITY)
            if fading <= 0.0:
                break
            direction = vectors[:, index]
            wrench = direction * _SCALE / math.sqrt(max(mobility, _MIN_DIVISOR))
            spring = self._stiffness(direction * _INVERSE)
            needed = max(0.0, MIN_HOLD_STIFFNESS - mobility * spring)
            fading *= min(1.0, spring / FADE_STIFFNESS)
            yield fading, needed, space.minv_jt.dot(wrench), wrench.dot(state.jacobian)

    def _hold(self, state: ArmState) -> None:
        period, scale, torque = self._period, self._held, self._torque
        impulse = period * (state.tau - state.coriolis - torque)
        gained, deflections = scale[1] + state.dq - self._dq, scale[0].copy()
        scale[:] = torque[:] = 0.0
        for fading, needed, motion, momentum in self._held_modes(state):
            speed, deflection = float(momentum.dot(state.dq)), float(momentum.dot(deflections))
            excess = float(momentum.dot(gained)) - float(motion.dot(impulse))
            excess = min(max(excess, min(speed, 0.0)), max(speed, 0.0))
            deflection += period * (excess if deflection * speed > 0.0 else speed)
            max_value, force = float(np.abs(motion).dot(self._max)), needed * deflection
            if abs(force) > max_value:
                force = math.copysign(max_value, force)
                deflection = force / needed
            scale[0] += deflection * motion
            scale[1] += excess * motion
            torque -= fading * (force + 2.0 * math.sqrt(needed) * excess) * momentum
