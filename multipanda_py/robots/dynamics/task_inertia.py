# SPDX-License-Identifier: Apache-2.0
"""Task-space inertia of an arm at its end effector, finite at singularities."""

from __future__ import annotations

import math
from typing import Any

import eigenpy
import numpy as np
from numpy import dot
from numpy.typing import NDArray

_TINY = 1e-12


def fade(w: NDArray[np.float64], w_p: float) -> NDArray[np.float64]:
    r"""Return :math:`\varphi(w / w_p) / w` of :class:`TaskInertia` for eigenvalues w, (n,).

    It is 1 / w for w >= w_p. For smaller w it increases to 3 / w_p at w = 0.
    """
    ratio = np.minimum(np.maximum(w, 0.0) / w_p, 1.0)
    faded: NDArray[np.float64] = (3.0 - 2.0 * np.sqrt(ratio)) / np.maximum(w, w_p)
    return faded


def min_eigenvalue(solver: Any, diagonal: NDArray[np.float64]) -> float:
    r"""Return a lower bound of the smallest eigenvalue of a symmetric matrix N, (6, 6).

    The bound is :math:`\det N / (\mathrm{tr} N / 5)^5`.

    Args:
        solver: LDLT factorisation of N.
        diagonal: Diagonal of N, (6,).
    """
    pivots: list[float] = solver.vectorD().tolist()
    mean: float = sum(diagonal.tolist()) / 5.0
    return math.prod(pivots) / mean**5


class TaskInertia:
    r"""Task-space inertia of an arm, with damping near singularities; computed once per cycle.

    .. math::
        \Lambda^{-1} = J M^{-1} J^T = V \,\mathrm{diag}(w)\, V^T, \qquad
        \Lambda_d = V \,\mathrm{diag}\!\left(\frac{w_i}{w_i^2 + \lambda^2}\right) V^T.

    J is the Jacobian and M the mass matrix, w are the eigenvalues and V the eigenvectors. The
    manipulability is the smallest eigenvalue :math:`w_{min}`. If it exceeds :math:`w_0`
    (``MIN_MANIPULABILITY``), :math:`\lambda = 0` and :math:`\Lambda_d = \Lambda`. Otherwise
    :math:`\lambda^2 = \lambda_{max}^2 (1 - (w_{min}/w_0)^2)` bounds the inertia in the singular
    direction.

    Use :math:`\Lambda_d` to compute wrenches from accelerations. To project joint torques into the
    nullspace, use :math:`\Lambda_p` of :meth:`projection_inertia`,

    .. math::
        \Lambda_p = V \,\mathrm{diag}\!\left(\frac{\varphi(w_i / w_p)}{w_i}\right) V^T, \qquad
        \varphi(r) = r (3 - 2 \sqrt{r}) \text{ for } r < 1, \text{ else } 1, \qquad
        w_p = w_{min} \frac{\sigma_p^2}{\sigma_{min}^2}.

    :math:`\Lambda_p` equals :math:`\Lambda` if the smallest singular value :math:`\sigma_{min}` of
    J exceeds :math:`\sigma_p` (``SIGMA_MIN_EXACT``). Otherwise a singular direction fades out of
    it.

    Sources: Khatib, IEEE J. Robotics and Automation 1987 (operational space); Yoshikawa, Int. J.
    Robotics Research 1985 (manipulability ellipsoid); Klein and Blaho, Int. J. Robotics Research
    1987 (smallest axis as a measure); Chiaverini, Siciliano and Egeland, IEEE Trans. Control
    Systems Technology 1994 (variable damping).

    Attributes:
        minv_jt: :math:`M^{-1} J^T`, (n, 6) for n joints.
        inertia_inv: Inverse task-space inertia :math:`\Lambda^{-1}`, (6, 6).
        inertia: Damped task-space inertia :math:`\Lambda_d`, (6, 6), symmetric.
        damping: :math:`\lambda^2`; zero away from singularities.

    Args:
        joints: Number of joints, n.

    Thread: control.
    """

    MIN_MANIPULABILITY = 0.02
    """Minimum manipulability w_0 without damping, an apparent mass of 50 kg [1/kg]."""
    MAX_DAMPING = 0.01
    """Maximum damping lambda_max, which limits the apparent mass to 58 kg [1/kg]."""
    SIGMA_MIN_EXACT = 0.01
    """Singular value sigma_p of J above which the projection of torques is exact. Below, a
    singular direction fades out of it."""
    _MAX_TRACE = 1.0 / MIN_MANIPULABILITY

    __slots__ = (
        "_axes",
        "_diagonal",
        "_eigen",
        "_eigen_is_fresh",
        "_exact",
        "_is_one_joint",
        "_jacobian",
        "_kinematic",
        "_mass",
        "_normal",
        "_task",
        "_unit",
        "damping",
        "inertia",
        "inertia_inv",
        "minv_jt",
    )

    def __init__(self, joints: int) -> None:
        self._mass, self._task = eigenpy.LLT(np.eye(joints)), eigenpy.LLT(np.eye(6))
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._eigen_is_fresh, self._is_one_joint = False, joints == 1
        self._unit = np.eye(6)
        self._kinematic = eigenpy.LDLT(np.eye(6))
        self._axes = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._exact = np.eye(6)
        self._jacobian, self._normal = np.zeros((6, joints)), np.zeros((6, 6))
        self._diagonal = self._normal.reshape(-1)[::7]
        self.minv_jt: NDArray[np.float64] = np.zeros((joints, 6))
        self.inertia_inv: NDArray[np.float64] = np.eye(6)
        self.inertia: NDArray[np.float64] = np.eye(6)
        # A damping above zero makes the first ``update`` test whether the solver's result is an
        # inverse.
        self.damping = self.MAX_DAMPING**2

    def update(self, mass: NDArray[np.float64], jacobian: NDArray[np.float64]) -> None:
        """Recompute all terms of a configuration.

        Args:
            mass: Mass matrix M, (n, n) [kg m^2].
            jacobian: Jacobian J of the tool in the base, (6, n).
        """
        self._jacobian = jacobian
        self._mass.compute(mass)
        self.minv_jt = self._mass.solve(jacobian.T)
        if self._is_one_joint:  # The solver returns a vector for one joint.
            self.minv_jt = self.minv_jt.reshape(1, 6)
        self._task.compute(jacobian.dot(self.minv_jt, self.inertia_inv))
        self._eigen_is_fresh = False
        self._exact = inertia = self._task.solve(self._unit)
        # 1 / trace(inertia) is a lower bound of w_min, the smallest eigenvalue of ``inertia_inv``.
        # If it exceeds w_0 = 1 / _MAX_TRACE, no damping and no eigenvalues are needed.
        sound = 0.0 < sum(inertia.diagonal().tolist()) < self._MAX_TRACE
        # Close to a singularity, the solver may return finite values that are not an inverse. An
        # arm gets there only from a configuration with damping. The trace of inertia inertia_inv
        # is 6 for an inverse.
        if sound and (not self.damping or abs(np.vdot(inertia, self.inertia_inv) - 6.0) < 1e-3):
            self.damping, self.inertia = 0.0, inertia
        else:
            self._update_damped()

    def _update_damped(self) -> None:
        w, v = self.eigen()
        ratio = min(max(float(w[0]), 0.0) / self.MIN_MANIPULABILITY, 1.0)
        self.damping = self.MAX_DAMPING**2 * (1.0 - ratio * ratio)
        w = np.maximum(w, 0.0)
        self.inertia = dot(v * (w / (w * w + self.damping + 1e-300)), v.T)

    def projection_inertia(self) -> NDArray[np.float64]:
        r"""Return :math:`\Lambda_p`, (6, 6), symmetric, to project joint torques."""
        normal = dot(self._jacobian, self._jacobian.T, self._normal)
        self._kinematic.compute(normal)
        if min_eigenvalue(self._kinematic, self._diagonal) > self.SIGMA_MIN_EXACT**2:
            return self._exact
        self._axes.compute(normal)
        narrow = float(self._axes.eigenvalues()[0]) / self.SIGMA_MIN_EXACT**2
        if narrow >= 1.0:
            return self._exact
        w, v = self.eigen()
        lost = (max(float(w[0]), 0.0) + _TINY) / (
            max(narrow, 0.0) + _TINY / self.SIGMA_MIN_EXACT**2
        )
        inertia: NDArray[np.float64] = dot(v * fade(w, lost), v.T)
        return inertia

    def removed_inertia(self) -> NDArray[np.float64]:
        r"""Return the inertia removed by damping, :math:`\Lambda - \Lambda_d`, (6, 6), symmetric.

        The torque :math:`J^T (\Lambda - \Lambda_d) J a` of a joint acceleration a is bounded in
        any configuration by the inertial torque M a.
        """
        w, v = self.eigen()
        w = np.maximum(w, _TINY)
        inertia: NDArray[np.float64] = dot(v * (self.damping / (w * (w * w + self.damping))), v.T)
        return inertia

    def damped_inertia_with(self, slower: float) -> NDArray[np.float64]:
        r"""Return :math:`\Lambda_d` with :math:`s \lambda^2` as damping, (6, 6), symmetric.

        In damped directions, a controller may brake at s times the rate at which it accelerates to
        a twist :math:`\dot x`. With the result :math:`\Lambda_s`, the joint velocity then settles
        at :math:`M^{-1} J^T \Lambda_s \dot x`.

        Args:
            slower: Factor s of the damping.
        """
        if self.damping == 0.0:
            return self.inertia
        w, v = self.eigen()
        w = np.maximum(w, 0.0)
        inertia: NDArray[np.float64] = dot(v * (w / (w * w + slower * self.damping)), v.T)
        return inertia

    @property
    def manipulability(self) -> float:
        """Smallest eigenvalue of ``inertia_inv`` [1/kg]."""
        return max(float(self.eigen()[0][0]), 0.0)

    def eigen(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return eigenvalues w (6,), ascending, and eigenvectors V (6, 6) of ``inertia_inv``."""
        if not self._eigen_is_fresh:
            self._eigen.compute(self.inertia_inv)
            self._eigen_is_fresh = True
        return self._eigen.eigenvalues(), self._eigen.eigenvectors()

    def apply_inertia(
        self, acceleration: NDArray[np.float64], out: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        r"""Return :math:`\Lambda_d a`, (6,) [N, Nm], for a task acceleration a, in ``out``."""
        return self.inertia.dot(acceleration, out)
