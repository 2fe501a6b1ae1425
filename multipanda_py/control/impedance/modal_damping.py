# SPDX-License-Identifier: Apache-2.0
"""Design of a damping matrix from an inertia, a stiffness and damping ratios."""

from __future__ import annotations

import eigenpy
import numpy as np
from numpy import add, dot, multiply

from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import Report

BANDWIDTH = 120.0
"""Maximum damping rate of a controllet [1/s]. At this rate, a critically damped spring is stable
with 5 ms of delay, 2 ms of torque lag and 0.8 times the modelled inertia. At 170 1/s, it
tolerates 4 ms of delay."""

MIN_DAMPING_RATIO = 0.3
"""Minimum damping ratio. At lower ratios and the maximum bandwidth, the delay adds more energy to
a spring than its damper dissipates."""

STIFFNESS_SCALE = Report(
    "stiffness scale", "-", "minimum fraction of the stiffness left by the bandwidth limit"
)
"""Report of controllets whose stiffness is reduced by the bandwidth limit."""


class ModalDamping:
    """Damping matrix with a given damping ratio for every mode of an inertia and a stiffness.

    Equations::

        D = 2 G N^-1/2 G^T
        N = G^T Lambda^-1 G + eps I
        G = K^1/2 Z

    - D: Damping, (n, n).
    - Lambda: Inertia, (n, n).
    - K: Stiffness, symmetric positive semidefinite, (n, n).
    - Z: Diagonal damping ratios, (n, n).
    - eps: ``REGULARISATION`` [1/s^2]. It keeps D finite where the arm cannot move.
    - G, N: Intermediate results, (n, n).

    For equal ratios zeta and eps = 0, D is 2 zeta Q^T B^1/2 Q with Lambda = Q^T Q and K = Q^T B Q.
    Source: Albu-Schäffer, Ott, Frese and Hirzinger, ICRA 2003 (double diagonalisation).

    D is positive semidefinite, so the damper is dissipative. A direction without stiffness has no
    damping.

    *Bandwidth limit.* Delay and torque lag limit the eigenvalues 2 sqrt(w) of Lambda^-1 D. Modes
    above the bandwidth b get less damping and, if needed, less stiffness::

        D  = 2 G V diag(min(sqrt(w), b / 2) / w) V^T G^T
        K' = K^1/2 U diag(min(1, b^2 / (4 omega^2))) U^T K^1/2
        N = V diag(w) V^T
        K^1/2 Lambda^-1 K^1/2 = U diag(omega^2) U^T

    - w, V: Eigenvalues [1/s^2] and eigenvectors of N.
    - omega: Mode frequencies [rad/s]; U: modes.
    - K': Reduced stiffness, (n, n).

    Args:
        size: Number of axes n.
        bandwidth: Bandwidth b [1/s].
        damping: Output array of D, (n, n); a new array by default.

    Attributes:
        damping: D of the last design, (n, n).
        stiffness_scale: Factor by which K' reduces the fastest mode of K, 0 to 1; 1: K' = K.
        stiffness: K' of the last design, (n, n). Valid only if ``stiffness_scale`` is below 1.

    Thread: control.
    """

    REGULARISATION = 1e-8
    """Squared frequency eps, far below that of any useful spring of an arm [1/s^2]."""

    def __init__(
        self, size: int = 6, bandwidth: float = BANDWIDTH, damping: Matrix | None = None
    ) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(size))
        self._regular = self.REGULARISATION * np.eye(size)
        self._product, self._normal = np.zeros((2, size, size))
        self.damping = np.zeros((size, size)) if damping is None else damping
        self._diagonal, self._brake = self._normal.reshape(-1)[:: size + 1], np.zeros(size)
        self.stiffness: Matrix = np.zeros((size, size))
        self.stiffness_scale = 1.0
        self._ratio = np.ones(size)
        self.set_bandwidth(bandwidth)
        self.set_root(np.eye(size))

    def set_bandwidth(self, bandwidth: float) -> None:
        """Set the bandwidth [1/s] for the next designs."""
        self._limit = 0.25 * bandwidth * bandwidth
        self._free = self._limit * min(1.0, float(self._ratio.min())) ** 2

    def set_root(self, half: Matrix, ratio: Vector | float = 1.0) -> None:
        """Set the square root of the stiffness, and the damping ratios.

        Args:
            half: Square root K^1/2 of the stiffness, (n, n).
            ratio: Damping ratios Z, one or (n,).
        """
        self._half = np.array(half)
        self._ratio[:] = ratio
        min_value = float(self._ratio.min())
        # If all squared frequencies of the modes are below this value, none exceeds the limit.
        self._free = self._limit * min(1.0, min_value) ** 2
        self._equal_ratio = (
            min_value if min_value > 0.0 and min_value == self._ratio.max() else 0.0
        )
        self._root = self._half * self._ratio
        axes = self._root.diagonal()
        self._pairs = np.outer(axes, axes)
        self._twice, self._twice_pairs = 2.0 * self._root, 2.0 * self._pairs
        self._is_diagonal = not np.any(self._root - np.diag(axes))

    def damp(self, inertia_inv: Matrix, rate: Vector) -> Vector:
        """Design the damping D for an inertia, and return D dx, (n,). The next call overwrites it.

        Args:
            inertia_inv: Inverse inertia Lambda^-1, (n, n).
            rate: Velocity dx, (n,).
        """
        self.design(inertia_inv)
        return self.apply(rate)

    def design(self, inertia_inv: Matrix) -> None:
        """Compute the damping D for the stiffness of ``set_root`` and an inertia.

        Args:
            inertia_inv: Inverse inertia Lambda^-1, (n, n).
        """
        if self._is_diagonal:
            normal = multiply(inertia_inv, self._pairs, self._normal)
        else:
            root = self._root
            normal = dot(root.T, dot(inertia_inv, root, self._product), self._normal)
        add(normal, self._regular, normal)
        eigen = self._eigen
        eigen.compute(normal)
        # The trace is an upper bound of all eigenvalues. Test it first, because it is faster than
        # the eigenvalues and often sufficient.
        if sum(self._diagonal.tolist()) <= self._free or eigen.eigenvalues()[-1] <= self._free:
            core: Matrix = eigen.operatorInverseSqrt()
            self.stiffness_scale = 1.0
        else:
            core = self._design_within_bandwidth(inertia_inv)
        if self._is_diagonal:
            multiply(core, self._twice_pairs, self.damping)
        else:
            dot(dot(self._twice, core, self._product), self._root.T, self.damping)

    def _design_within_bandwidth(self, inertia_inv: Matrix) -> Matrix:
        # Eigenvalues w and eigenvectors V of N. The result is V diag(min(sqrt(w), b / 2) / w) V^T.
        eigen, half, limit = self._eigen, self._half, self._limit
        w, v = np.maximum(eigen.eigenvalues(), self.REGULARISATION), eigen.eigenvectors()
        core: Matrix = dot(v * (np.sqrt(np.minimum(w, limit)) / w), v.T)
        if self._equal_ratio:
            w = w / self._equal_ratio**2
        else:
            eigen.compute(dot(half.T, dot(inertia_inv, half)) + self._regular)
            w, v = np.maximum(eigen.eigenvalues(), self.REGULARISATION), eigen.eigenvectors()
        keep = np.minimum(1.0, limit / w)
        self.stiffness_scale = float(keep[-1])
        if self.stiffness_scale < 1.0:
            scaled = dot(half, v)
            self.stiffness = dot(scaled * keep, scaled.T)
        return core

    def apply(self, rate: Vector, out: Vector | None = None) -> Vector:
        """Return D dx with the damping D of the last ``design``, (n,).

        Args:
            rate: Velocity dx, (n,).
            out: Output array, (n,). Without it, the next call overwrites the result.
        """
        return self.damping.dot(rate, self._brake if out is None else out)
