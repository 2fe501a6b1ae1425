# SPDX-License-Identifier: Apache-2.0
"""Inertia seen at the tool, kept finite near singular postures."""

from __future__ import annotations

import eigenpy
import numpy as np
from numpy.typing import NDArray

_dot = np.dot


class OperationalSpace:
    r"""Compute the terms that task-space laws share, once per arm and cycle.

    .. math::
        \Lambda^{-1} = J M^{-1} J^T = V \,\mathrm{diag}(w)\, V^T, \qquad
        \Lambda_d = V \,\mathrm{diag}\!\left(\frac{w_i}{w_i^2 + \lambda^2}\right) V^T

    Far from a singularity :math:`\lambda = 0` and :math:`\Lambda_d = \Lambda`. Below
    ``THRESHOLD`` the damping grows as
    :math:`\lambda^2 = \lambda_{max}^2 (1 - (w_{min}/\epsilon)^2)`, so that it sets in without
    a step and bounds the inertia in the direction that is being lost.

    Sources: Khatib, IEEE J. Robotics and Automation 1987 (operational space); Chiaverini,
    Siciliano and Egeland, IEEE Trans. Control Systems Technology 1994 (variable damping).

    Attributes:
        minv_jt: :math:`M^{-1} J^T`, (7, 6).
        inertia_inv: :math:`\Lambda^{-1}`, (6, 6).
        inertia_sqrt: :math:`\Lambda_d^{1/2}`, (6, 6), symmetric.
        damping: :math:`\lambda^2`; zero away from singularities.

    Thread: control.
    """

    THRESHOLD = 0.02
    """Smallest eigenvalue of the inverse inertia that needs no damping (50 kg) [1/kg]."""
    MAX_DAMPING = 0.01
    """Largest lambda [1/kg]; bounds the apparent inertia by 1 / (2 lambda) = 50 kg."""

    __slots__ = ("_mass", "_task", "damping", "inertia_inv", "inertia_sqrt", "minv_jt")

    def __init__(self) -> None:
        self._mass = eigenpy.LLT(np.eye(7))
        self._task = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self.minv_jt: NDArray[np.float64] = np.zeros((7, 6))
        self.inertia_inv: NDArray[np.float64] = np.eye(6)
        self.inertia_sqrt: NDArray[np.float64] = np.eye(6)
        self.damping = 0.0

    def update(self, mass: NDArray[np.float64], jacobian: NDArray[np.float64]) -> None:
        """Recompute all terms from the mass matrix (7, 7) and the Jacobian (6, 7)."""
        self._mass.compute(mass)
        self.minv_jt = self._mass.solve(jacobian.T)
        task = self._task
        task.compute(_dot(jacobian, self.minv_jt, self.inertia_inv))
        smallest = float(task.eigenvalues()[0])
        if smallest > self.THRESHOLD:
            self.damping = 0.0
            self.inertia_sqrt = task.operatorInverseSqrt()
        else:
            self._update_damped(max(smallest, 0.0))

    def _update_damped(self, smallest: float) -> None:
        """Form the square root of the damped inertia from the eigenvectors."""
        ratio = smallest / self.THRESHOLD
        self.damping = self.MAX_DAMPING**2 * (1.0 - ratio * ratio)
        w = np.maximum(self._task.eigenvalues(), 0.0)
        v = self._task.eigenvectors()
        self.inertia_sqrt = _dot(v * np.sqrt(w / (w * w + self.damping + 1e-300)), v.T)

    def apply_inertia(
        self, acceleration: NDArray[np.float64], out: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        r"""Write :math:`\Lambda_d a` for a task acceleration (6,) into ``out`` (6,)."""
        half = self.inertia_sqrt
        return _dot(half, _dot(half, acceleration), out)
