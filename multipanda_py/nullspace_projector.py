# SPDX-License-Identifier: Apache-2.0
"""Take out of joint torques what the task would feel."""

from __future__ import annotations

import math

import eigenpy
import numpy as np

from multipanda_py.state import ArmState, Matrix, Vector

_dot, _subtract = np.dot, np.subtract

PROJECTORS = ("none", "kinematic", "dynamic")


class NullspaceProjector:
    r"""Project joint torques into the nullspace of the task, in place.

    .. math::
        N_{kin} = I - J^T (J^+)^T,\quad J^+ = J^T (J J^T + \lambda^2 I)^{-1}, \qquad
        N_{dyn} = I - J^T \Lambda_d J M^{-1}

    The kinematic projector leaves torques that exert no wrench in a static equilibrium
    (:math:`J N_{kin} = 0`); the dynamically consistent one leaves torques that accelerate no
    task coordinate (:math:`J M^{-1} N_{dyn} = 0`). Near a singularity both are damped, and the
    direction that is being lost joins the nullspace: :math:`\Lambda_d` by
    :class:`~multipanda_py.operational_space.OperationalSpace`, :math:`\lambda` by the
    manipulability :math:`m = \sqrt{\det J J^T}`,
    :math:`\lambda^2 = \lambda_{max}^2 (1 - m / m_0)^2` for :math:`m < m_0`, else 0.

    Sources: Khatib 1987; Dietrich, Ott and Albu-Schäffer, IJRR 2015 (overview of projectors);
    Nakamura and Hanafusa 1986 (damping by manipulability).

    Thread: control.
    """

    SMALL_MANIPULABILITY = 0.01
    """m_0, a tenth of what a Franka arm has in its middle postures."""
    MAX_DAMPING = 0.05
    """lambda_max; torques need no more than 1 / (2 lambda_max) times their size to project."""

    def __init__(self) -> None:
        self._task, self._wrench = np.zeros(6), np.zeros(6)
        self._part = np.zeros(7)
        self._normal = np.zeros((6, 6))
        self._diagonal = self._normal.reshape(-1)[::7]
        self._solver = eigenpy.LDLT(np.eye(6))

    def dynamic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the dynamically consistent projector to ``tau``, (7,) [Nm]."""
        space = state.operational_space()
        wrench = space.apply_inertia(_dot(tau, space.minv_jt, self._task), self._wrench)
        _subtract(tau, _dot(wrench, state.jacobian, self._part), tau)
        return tau

    def kinematic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the kinematic projector to ``tau``, (7,) [Nm]."""
        jacobian, solver = state.jacobian, self._solver
        normal: Matrix = _dot(jacobian, jacobian.T, self._normal)
        solver.compute(normal)
        m = math.sqrt(max(math.prod(solver.vectorD().tolist()), 0.0))
        if m < self.SMALL_MANIPULABILITY:
            damping = self.MAX_DAMPING * (1.0 - m / self.SMALL_MANIPULABILITY)
            self._diagonal += damping * damping
            solver.compute(normal)
        wrench = solver.solve(_dot(jacobian, tau, self._task))
        _subtract(tau, _dot(wrench, jacobian, self._part), tau)
        return tau
