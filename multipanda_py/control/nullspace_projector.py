# SPDX-License-Identifier: Apache-2.0
"""Take out of joint torques what the task would feel."""

from __future__ import annotations

from collections.abc import Iterator

import eigenpy
import numpy as np

from multipanda_py.context import Context
from multipanda_py.dynamics.task_inertia import TaskInertia, fade, least_eigenvalue
from multipanda_py.state import ArmState, Matrix, Vector

_dot, _subtract = np.dot, np.subtract

TASK = 6
"""Coordinates of a tool's pose."""
PROJECTORS = ("none", "kinematic", "dynamic")


def nothing_left(context: Context, feature: str) -> Iterator[str]:
    """Say of each arm whose joints the task takes all that a feature in its nullspace is idle."""
    for arm in context.arms:
        if arm.n_joints <= TASK:
            yield (
                f"{arm.name} has {arm.n_joints} joints, all of which its tool's pose takes: "
                f"{feature} acts only where a posture is singular"
            )


class NullspaceProjector:
    r"""Project joint torques into the nullspace of the task, in place.

    .. math::
        N_{kin} = I - J^T (J J^T)^{-1} J, \qquad N_{dyn} = I - J^T \Lambda J M^{-1}

    The kinematic projector leaves torques that exert no wrench in a static equilibrium
    (:math:`J N_{kin} = 0`); the dynamically consistent one leaves torques that accelerate no
    task coordinate (:math:`J M^{-1} N_{dyn} = 0`). In either equilibrium what the task feels of
    a projected torque is zero. An arm with six joints has no nullspace, and
    :math:`N = 0`; :func:`nothing_left` says it.

    Both are exact wherever the smallest singular value of J exceeds
    :data:`TaskInertia.LOST <multipanda_py.dynamics.task_inertia.TaskInertia>`. They need
    no damping to stay bounded: their norms are 1 and at most :math:`\sqrt{\mathrm{cond} M}`.
    Below that value a direction of the task joins the nullspace smoothly, as the nullspace of
    the singular posture has it: its eigenvalue of :math:`(J J^T)^{-1}`, or :math:`\Lambda`, is
    weighted by :math:`\varphi`, see there.

    Sources: Khatib 1987; Dietrich, Ott and Albu-Schäffer, IJRR 2015 (overview of projectors).

    Args:
        joints: Number of joints, n.

    Thread: control.
    """

    def __init__(self, joints: int) -> None:
        self._task, self._wrench = np.zeros(6), np.zeros(6)
        self._part = np.zeros(joints)
        self._normal = np.zeros((6, 6))
        self._diagonal = self._normal.reshape(-1)[::7]
        self._solver = eigenpy.LDLT(np.eye(6))
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))

    def dynamic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the dynamically consistent projector to ``tau``, (n,) [Nm]."""
        space = state.operational_space()
        task = tau.dot(space.minv_jt, self._task)
        inertia = space.projection_inertia() if space.damping else space.inertia
        wrench = inertia.dot(task, self._wrench)
        return _subtract(tau, wrench.dot(state.jacobian, self._part), tau)

    def kinematic(self, state: ArmState, tau: Vector) -> Vector:
        """Apply the kinematic projector to ``tau``, (n,) [Nm]."""
        jacobian, solver = state.jacobian, self._solver
        normal: Matrix = jacobian.dot(jacobian.T, self._normal)
        solver.compute(normal)
        task = jacobian.dot(tau, self._task)
        if least_eigenvalue(solver, self._diagonal) > TaskInertia.LOST**2:
            wrench = solver.solve(task)
        else:
            wrench = self._solve_near_singular(normal, task)
        _subtract(tau, wrench.dot(jacobian, self._part), tau)
        return tau

    def _solve_near_singular(self, normal: Matrix, task: Vector) -> Vector:
        self._eigen.compute(normal)
        w, v = self._eigen.eigenvalues(), self._eigen.eigenvectors()
        return _dot(v, fade(w, TaskInertia.LOST**2) * _dot(task, v), self._wrench)
