# SPDX-License-Identifier: Apache-2.0
"""Guard against unknown torques on joint motions that no tool spring holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import eigenpy
import numpy as np

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.state import ArmState, Vector

MAX_RATE = 40.0
"""Fastest that such a motion is braked [1/s]."""
_MIN_EIGENVALUE = 1e-9


def curvature(state: ArmState, direction: Vector, wrench: Vector) -> float:
    r"""Return :math:`F^T \dot J(u)\, u`: the power that a tool curving away takes from a wrench.

    With the columns of J, :math:`v_i` and :math:`z_i`, and :math:`c_i = \sum_{j \le i} z_j u_j`,

    .. math::
        \dot J(u)\, u = \begin{bmatrix} \sum_i (2 c_i - z_i u_i) \times v_i u_i \\
        \sum_i c_i \times z_i u_i \end{bmatrix}

    Args:
        state: The arm.
        direction: Joint velocities u, (n,).
        wrench: F on the tool, along the axes of the base, (6,) [N, Nm].
    """
    columns = state.jacobian * direction
    linear, angular = columns[:3], columns[3:]
    turned = np.cumsum(angular, axis=1)
    fx, fy, fz, tx, ty, tz = wrench.tolist()
    force = np.array(((0.0, -fz, fy), (fz, 0.0, -fx), (-fy, fx, 0.0)))
    torque = np.array(((0.0, -tz, ty), (tz, 0.0, -tx), (-ty, tx, 0.0)))
    bent = linear * force.dot(2.0 * turned - angular) + angular * torque.dot(turned)
    return float(bent.sum())


class LostModes:
    r"""Brake the motions along which a spring pulls a nearly singular arm as on a pendulum.

    A tool drawn beyond its reach curves away from where it is drawn, and the wrench F of its
    spring draws it back: along :math:`u_i = M^{-1} J^T v_i / \sqrt{w_i}`, of unit kinetic
    energy, with the geometric stiffness :math:`k_i = -F^T \dot J(u_i)\, u_i`, which is no part
    of K. The damping that fits K vanishes there, as :math:`2 \sqrt{K w_i}`, and the arm swings
    for seconds. The wrench

    .. math::
        F_d = -\sum_{w_i < w_0} v_i \frac{\rho_i}{w_i} v_i^T \dot x, \qquad
        \rho_i = \left( 1 - \frac{w_i}{w_0} \right) \left( \sqrt{d_i^2 + 4 \max(k_i, 0)} - d_i
        \right), \qquad d_i = w_i v_i^T D v_i

    adds to the spring's own damping D what brakes both together critically, and nothing else:
    without such a pull there is no brake, and a tool gets where it can as fast as its spring
    draws it. It only takes energy. :math:`J M^{-1} J^T = V \mathrm{diag}(w) V^T` and
    :math:`w_0` as in :class:`.OperationalSpace`.

    Thread: control.
    """

    def damp(
        self, state: ArmState, wrench: Vector, damping: Callable[[Vector], float]
    ) -> Vector | None:
        """Return a damper's wrench on the tool, (6,) [N, Nm]; None where nothing is lost.

        Args:
            state: The arm.
            wrench: Of its spring, along the axes of the base, (6,) [N, Nm].
            damping: Returns how hard the spring's damper brakes along a unit twist in the base,
                (6,): the power it takes.
        """
        space = state.operational_space()
        if space.damping == 0.0:
            return None
        values, vectors = space.eigen()
        total = None
        for place, w in enumerate(values.tolist()):
            share = 1.0 - w / TaskInertia.THRESHOLD
            if share <= 0.0:
                break
            lost = vectors[:, place]
            size = max(w, _MIN_EIGENVALUE)
            direction = space.minv_jt.dot(lost) / math.sqrt(size)
            stiffness = -curvature(state, direction, wrench)
            if stiffness <= 0.0:
                continue
            own = size * damping(lost)
            rate = share * min(math.sqrt(own * own + 4.0 * stiffness) - own, MAX_RATE)
            part = lost * (-rate / size * float(lost.dot(state.twist_ee_in_base)))
            total = part if total is None else total + part
        return total


_multiply = np.multiply
Mode: TypeAlias = tuple[float, float, Vector, Vector]
"""Factor f, stiffness k [1/s^2], motion u (n,) and its momentum M u (n,)."""

LEVER = math.sqrt(0.05)
"""Length that converts rotations to translations [m]."""
THRESHOLD = 0.01
"""Mobility of a direction at which its hold begins [1/kg]."""
STIFFNESS = 16.0
"""Minimum stiffness over inertia of a motion that is held [1/s^2]."""
DAMPING = 2.0 * math.sqrt(STIFFNESS)
"""Rate that damps it critically [1/s]."""
SOFT = 50.0
"""Stiffness along a direction below which its hold fades out [N/m]."""
TORQUE_SHARE = 0.05
"""Fraction of the torque limits up to which unknown torques are held."""
_SCALE = np.array([1.0] * 3 + [LEVER] * 3)
_PAIRS, _INVERSE = np.outer(_SCALE, _SCALE), 1.0 / _SCALE
_MIN_MOBILITY = 1e-12


class SingularityGuard:
    r"""Hold an arm against unknown torques near singular configurations.

    A spring K at the tool holds a joint motion :math:`u`, of unit kinetic energy, with the
    stiffness :math:`\omega^2 = (J u)^T K J u`, which vanishes at a singular configuration. A
    torque that the model lacks, such as friction or a load, then accelerates the arm as if no
    controllet were active. With :math:`S = \mathrm{diag}(1, 1, 1, l, l, l)`

    .. math::
        S J M^{-1} J^T S = V\,\mathrm{diag}(w)\, V^T, \qquad
        u_i = M^{-1} J^T S v_i / \sqrt{w_i}, \\
        \tau = -\sum_{w_i < w_0} f_i\, M u_i \left( k_i y_i + 2 \sqrt{k_i}\, e_i \right),
        \qquad k_i = \max(0, k_0 - \omega_i^2)

    The speed :math:`e_i = u_i^T M (\dot q - \int M^{-1} (\tau_{cmd} - c)\, dt)` is the part of
    :math:`u_i^T M \dot q` that commanded torques do not explain. Motion by the spring of the tool
    is therefore not held. The deflection :math:`y_i` grows with :math:`e_i` and shrinks with the
    whole speed. It is bounded to the force that joint torques of 5 % of the limits exert along
    the motion. The guard only dissipates energy, apart from that stored in its springs.

    The factor f fades in from :math:`w_0` to half of it, and from a manipulability of 0.02 1/kg to
    0.016 1/kg. It fades out for springs below 50 N/m. Elsewhere, and at rest without unknown
    torques, the guard adds nothing. A switch does not move an arm whose previous controllet
    balanced unknown torques: :meth:`resume` deflects the springs so that they exert the same.

    Args:
        arm: Description of the arm.
        period: Cycle time [s].

    Attributes:
        is_near: Whether the arm was near a singular configuration in the last :meth:`add`. While
            it is false, :meth:`add` may be skipped away from singular configurations.

    Thread: control.
    """

    def __init__(self, arm: ArmDescription, period: float) -> None:
        n = arm.n_joints
        self._most, self._period = TORQUE_SHARE * arm.limits.torque, period
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._scaled = np.zeros((6, 6))
        # Rows: deflections [rad], unexplained speeds [rad/s].
        self._kept, self._torque, self._dq = np.zeros((2, n)), np.zeros(n), np.zeros(n)
        self._before = np.zeros(n)
        self.is_near = self._resumes = False

    def reset(self) -> None:
        """Clear the deflections of an earlier activation."""
        self.is_near = self._resumes = False

    def resume(self, state: ArmState, stiffness: Callable[[Vector], float], tau: Vector) -> Vector:
        """Start with the part of earlier torques along the held motions.

        The first :meth:`add` corrects it by the torques of the controllet along them.

        Args:
            state: State of the arm, at rest.
            stiffness: Function that returns :math:`v^T K v` of a twist in the base, (6,).
            tau: Torques that kept the arm at rest before the activation, (n,) [Nm].

        Returns:
            Torques of the guard, (n,) [Nm]. The controllet exerts the rest.
        """
        held = np.zeros(len(tau))
        if not tau.any() or state.operational_space().damping == 0.0:
            return held
        self._before[:], self._resumes = tau, True
        for fading, needed, motion, momentum in self._modes(state, stiffness):
            if needed > 0.0:
                most, force = float(np.abs(motion).dot(self._most)), float(motion.dot(tau))
                held += fading * min(max(force, -most), most) * momentum
        return held

    def add(self, state: ArmState, stiffness: Callable[[Vector], float], tau: Vector) -> None:
        """Add the torques of the hold to those of the law.

        Args:
            state: State of the arm.
            stiffness: Function that returns :math:`v^T K v` of a twist in the base, (6,).
            tau: Torques of the law, (n,) [Nm].
        """
        if state.operational_space().damping == 0.0:
            self.is_near = self._resumes = False
            return
        if not self.is_near:
            self.is_near = True
            self._kept[:] = self._torque[:] = 0.0
            self._dq[:] = state.dq
        if self._resumes:
            self._resumes = False
            self._deflect(state, stiffness, self._before - tau)
        self._hold(state, stiffness)
        self._dq[:] = state.dq
        tau += self._torque

    def _deflect(
        self, state: ArmState, stiffness: Callable[[Vector], float], lacking: Vector
    ) -> None:
        """Deflect the springs so that they exert the torques ``lacking``, (n,) [Nm]."""
        for _, needed, motion, _ in self._modes(state, stiffness):
            if needed > 0.0:
                self._kept[0] -= float(motion.dot(lacking)) / needed * motion

    def _modes(self, state: ArmState, stiffness: Callable[[Vector], float]) -> Iterator[Mode]:
        """Yield the motions whose mobility is below the threshold."""
        space, eigen = state.operational_space(), self._eigen
        nearness = min(1.0, 5.0 - 5.0 * space.manipulability / TaskInertia.THRESHOLD)
        eigen.compute(_multiply(space.inertia_inv, _PAIRS, self._scaled))
        mobilities, vectors = eigen.eigenvalues(), eigen.eigenvectors()
        for place, mobility in enumerate(mobilities.tolist()):
            fading = nearness * min(1.0, 2.0 - 2.0 * mobility / THRESHOLD)
            if fading <= 0.0:
                break
            direction = vectors[:, place]
            wrench = direction * _SCALE / math.sqrt(max(mobility, _MIN_MOBILITY))
            spring = stiffness(direction * _INVERSE)
            needed = max(0.0, STIFFNESS - mobility * spring)
            fading *= min(1.0, spring / SOFT)
            yield fading, needed, space.minv_jt.dot(wrench), wrench.dot(state.jacobian)

    def _hold(self, state: ArmState, stiffness: Callable[[Vector], float]) -> None:
        """Update deflections, speeds and torques of these motions."""
        period, kept, torque = self._period, self._kept, self._torque
        impulse = period * (state.tau - state.coriolis - torque)
        gained, deflections = kept[1] + state.dq - self._dq, kept[0].copy()
        kept[:] = torque[:] = 0.0
        for fading, needed, motion, momentum in self._modes(state, stiffness):
            speed, deflection = float(momentum.dot(state.dq)), float(momentum.dot(deflections))
            excess = float(momentum.dot(gained)) - float(motion.dot(impulse))
            excess = min(max(excess, min(speed, 0.0)), max(speed, 0.0))
            deflection += period * (excess if deflection * speed > 0.0 else speed)
            most, force = float(np.abs(motion).dot(self._most)), needed * deflection
            if abs(force) > most:
                force = math.copysign(most, force)
                deflection = force / needed
            kept[0] += deflection * motion
            kept[1] += excess * motion
            torque -= fading * (force + 2.0 * math.sqrt(needed) * excess) * momentum
