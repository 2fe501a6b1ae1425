# SPDX-License-Identifier: Apache-2.0
"""Posture that moves along with a tool that is free to move."""

from __future__ import annotations

import eigenpy
import numpy as np

from multipanda_py.robots.dynamics.task_inertia import fade
from multipanda_py.state import ArmState, Matrix, TaskSpaceDynamics, Vector

_dot, _subtract = np.dot, np.subtract

SOFT = 5.0
"""Stiffness below which a direction may count as free [N/m]."""
RADIUS = 0.25
"""Distance from the axis at which a rotational stiffness is compared with it [m]."""
SLOW_MODE = 0.25
"""Squared frequency of a mode, below which the mode fades from held to free [1/s^2]."""
_SCALE = np.repeat((1.0, 1.0 / RADIUS), 3)


def is_soft(stiffness: Matrix) -> bool:
    """Return whether a stiffness (6, 6) has a direction below :data:`SOFT`."""
    scaled = _SCALE[:, None] * stiffness * _SCALE
    return bool(np.linalg.eigvalsh(scaled)[0] < SOFT)


def projected_inertia(space: TaskSpaceDynamics) -> Matrix:
    r"""Return the :math:`\Lambda` that projectors take, (6, 6)."""
    return space.projection_inertia() if space.damping else space.inertia


class FreeMotion:
    r"""Compute the joint velocity that belongs to the free motion of a tool.

    .. math::
        \dot q_f = M^{-1} J^T (\Lambda - \Lambda_h) J \dot q, \qquad
        \Lambda_h = K^{1/2} U\, \mathrm{diag}\!\left(\frac{\varphi(w_i / w_0)}{w_i}\right)
        U^T K^{1/2}, \qquad K^{1/2} \Lambda^{-1} K^{1/2} = U\, \mathrm{diag}(w)\, U^T

    :math:`M^{-1} J^T \Lambda_h J \dot q` is the motion of least kinetic energy among those in
    which the directions with a spring move as they do. With :math:`K > 0` all of
    :math:`\Lambda` is held and nothing is free. As the frequency :math:`\sqrt{w_i}` of a mode
    goes to zero, the mode becomes free without a step (:math:`\varphi` as in
    :class:`.TaskInertia`). The stiffness may be any symmetric positive semidefinite matrix.

    Thread: control.
    """

    def __init__(self) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._normal, self._half, self._free = np.zeros((3, 6, 6))
        self._momentum = np.zeros(6)

    def velocity(self, state: ArmState, root: Matrix) -> Vector:
        r"""Return :math:`\dot q_f`, (n,) [rad/s].

        Args:
            state: State of the arm.
            root: :math:`K^{1/2}` along the axes of the base, (6, 6).
        """
        space = state.operational_space()
        normal = _dot(_dot(root, space.inertia_inv, self._half), root, self._normal)
        self._eigen.compute(normal)
        half = _dot(root, self._eigen.eigenvectors(), self._half)
        weights = fade(self._eigen.eigenvalues(), SLOW_MODE)
        held = _dot(half * weights, half.T, self._free)
        free = _subtract(projected_inertia(space), held, self._free)
        momentum = free.dot(state.twist_ee_in_base, self._momentum)
        velocity: Vector = space.minv_jt.dot(momentum)
        return velocity


_add, _dot, _multiply = np.add, np.dot, np.multiply

RETURN_SPEED = 0.2
"""Speed with which the posture returns while the tool rests [rad/s]."""
SLOW_RETURN_SPEED = 0.02
"""The same while the tool moves freely [rad/s]."""
RESTING_ENERGY = 2e-3
"""Kinetic energy of the free motion from which on the tool does not rest [J]."""


class GuidedPosture:
    r"""Shift a posture by the free motion of the tool, so that its spring stays passive.

    .. math::
        q_n' = q_n + r, \qquad \dot q_n' = \dot q_n + \dot q_f, \qquad
        \dot r = \dot q_f - v_r\, \frac{r}{\|r\|_\infty}

    A projected spring exerts nothing on the tool. When the tool moves freely, the deflection of
    the spring changes without work, and the nullspace motion then gains energy. The energy grows
    from lap to lap, as nothing brakes the tool. With
    :math:`\dot q_f` (:class:`.FreeMotion`) taken out of the deflection :math:`e`, the power of
    the projected spring is :math:`-\tfrac{d}{dt} \tfrac12 e^T K_n e` in the free directions.
    The shift returns to zero at :math:`v_r`, slow enough for the damper of the posture to take
    the energy of the return.

    Args:
        joints: Number of joints, n.
        period: Cycle time [s].

    Attributes:
        is_shifted: Whether :math:`r` is not zero.

    Thread: control.
    """

    def __init__(self, joints: int, period: float) -> None:
        self._period = period
        self._shift, self._posture, self._velocity = np.zeros((3, joints))
        self.is_shifted = False

    def reset(self) -> None:
        """Return to the posture itself."""
        self._shift[:], self.is_shifted = 0.0, False

    def step(
        self, state: ArmState, free: Vector | None, posture: Vector, velocity: Vector | None
    ) -> tuple[Vector, Vector | None]:
        """Return the shifted posture (n,) [rad] and its velocity (n,) [rad/s] of this cycle.

        Args:
            state: State of the arm.
            free: Joint velocity of the free motion, (n,) [rad/s]; None if nothing is free.
            posture: Requested posture, (n,) [rad].
            velocity: Its velocity, (n,) [rad/s]; None is rest.
        """
        shift, speed = self._shift, RETURN_SPEED
        if free is not None:
            energy = 0.5 * float(free.dot(state.mass).dot(state.dq))
            resting = max(0.0, 1.0 - energy / RESTING_ENERGY)
            speed = SLOW_RETURN_SPEED + (RETURN_SPEED - SLOW_RETURN_SPEED) * resting
            _add(shift, _multiply(free, self._period, self._velocity), shift)
            velocity = _add(free, 0.0 if velocity is None else velocity, self._velocity)
        farthest = max(map(abs, shift.tolist()))
        kept = 1.0 - speed * self._period / farthest if farthest > 0.0 else 0.0
        _multiply(shift, max(0.0, kept), shift)
        self.is_shifted = kept > 0.0
        return _add(posture, shift, self._posture), velocity
