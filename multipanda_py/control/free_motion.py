# SPDX-License-Identifier: Apache-2.0
"""Motion of a tool in the directions that no spring holds."""

from __future__ import annotations

import eigenpy
import numpy as np

from multipanda_py.dynamics.task_inertia import fade
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
