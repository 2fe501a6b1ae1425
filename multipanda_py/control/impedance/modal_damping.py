# SPDX-License-Identifier: Apache-2.0
"""Damping that fits a stiffness and an inertia, mode by mode."""

from __future__ import annotations

import eigenpy
import numpy as np

from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import Report

_add, _dot, _multiply = np.add, np.dot, np.multiply

BANDWIDTH = 120.0
"""Largest rate at which a law may brake [1/s]. A velocity loop of this bandwidth around a
critically damped spring is stable with 5 ms of delay and a torque that lags by 2 ms, on an arm
of 0.8 times the inertia of its model; at 170 1/s it stands 4 ms."""

LEAST_RATIO = 0.3
"""Least ratio that users may ask for: with less, the delay feeds more into a spring at the
bound of the bandwidth than its damper takes out."""

KEPT = Report("stiffness kept", "-", "least share of the stiffness that the posture leaves")
"""What laws with such a damping call the share of their stiffness that a posture has left them."""


class ModalDamping:
    r"""Design the damping that gives every mode of an inertia and a stiffness its ratio.

    .. math::
        D = 2\, G N^{-1/2} G^T, \qquad N = G^T \Lambda^{-1} G + \epsilon I, \qquad
        G = K^{1/2} Z

    For equal ratios and :math:`\epsilon = 0` this is twice the ratio times the geometric mean of
    :math:`\Lambda` and K: with :math:`\Lambda = Q^T Q` and :math:`K = Q^T B Q`,
    :math:`D = 2 \zeta Q^T B^{1/2} Q`, the double-diagonalisation design of Albu-Schäffer, Ott,
    Frese and Hirzinger, ICRA 2003. With different ratios per axis each axis has its own as far
    as the axes do not couple.

    D is positive semidefinite for any positive semidefinite K, so the damper never drives, and
    zero where K is zero: a direction without a spring is not braked either. (The sum
    :math:`\Lambda^{1/2} Z K^{1/2} + K^{1/2} Z \Lambda^{1/2}` of the same paper's square-root
    design is indefinite for very unequal gains.) It is written with :math:`\Lambda^{-1}`, so
    nothing has to be inverted in singular postures; :math:`\epsilon` keeps it finite in
    directions in which the arm cannot move.

    Bounds. The eigenvalues of :math:`\Lambda^{-1} D` are :math:`2 \sqrt{w}` with w those of N,
    and delay and torque lag stand only so much of them. Where a mode is beyond the bandwidth b,
    it is given less, and others what they asked for: with :math:`N = V\,\mathrm{diag}(w) V^T` and
    :math:`K^{1/2} \Lambda^{-1} K^{1/2} = U\,\mathrm{diag}(\omega^2)\, U^T`

    .. math::
        D = 2\, G V\, \mathrm{diag}\!\left( \frac{\min(\sqrt{w},\, b / 2)}{w} \right)
        V^T G^T, \qquad
        K' = K^{1/2} U\, \mathrm{diag}\!\left( \min\!\left(1,
        \frac{b^2}{4 \omega^2} \right) \right) U^T K^{1/2}

    so that :math:`\Lambda^{-1} K'` has the eigenvalues :math:`\min(\omega^2, b^2 / 4)`. Both are
    continuous in posture and gains. A damper is cut before its spring where the ratio is above
    1, and then the mode is never less than critically damped.

    Args:
        size: Number of axes.
        bandwidth: b [1/s].
        damping: Where D is written, (n, n); an array of its own by default.

    Attributes:
        damping: D of the last design, (n, n).
        kept: Smallest share of the stiffness that any mode has kept; 1 is all.
        stiffness: K', (n, n), of the last design; only if ``kept`` is below 1.

    Thread: control.
    """

    REGULARISATION = 1e-8
    """Far below the squared frequency of any useful spring on the arm [1/s^2]."""

    def __init__(
        self, size: int = 6, bandwidth: float = BANDWIDTH, damping: Matrix | None = None
    ) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(size))
        self._regular = self.REGULARISATION * np.eye(size)
        self._product, self._normal = np.zeros((2, size, size))
        self.damping = np.zeros((size, size)) if damping is None else damping
        self._diagonal, self._brake = self._normal.reshape(-1)[:: size + 1], np.zeros(size)
        self.stiffness: Matrix = np.zeros((size, size))
        self.kept = 1.0
        self._ratio = np.ones(size)
        self.set_bandwidth(bandwidth)
        self.set_root(np.eye(size))

    def set_bandwidth(self, bandwidth: float) -> None:
        """Bound the rates of damping [1/s] from the next design on."""
        self._limit = 0.25 * bandwidth * bandwidth
        self._free = self._limit * min(1.0, float(self._ratio.min())) ** 2

    def set_root(self, half: Matrix, ratio: Vector | float = 1.0) -> None:
        r"""Set :math:`K^{1/2}`, (n, n), and the ratios Z, (n,); diagonal gains are cheaper."""
        self._half = np.array(half)
        self._ratio[:] = ratio
        least = float(self._ratio.min())
        # No mode of the spring is beyond the bandwidth unless w is beyond this.
        self._free = self._limit * min(1.0, least) ** 2
        self._equal_ratio = least if least > 0.0 and least == self._ratio.max() else 0.0
        self._root = self._half * self._ratio
        axes = self._root.diagonal()
        self._pairs = np.outer(axes, axes)
        self._twice, self._twice_pairs = 2.0 * self._root, 2.0 * self._pairs
        self._is_diagonal = not np.any(self._root - np.diag(axes))

    def damp(self, inertia_inv: Matrix, rate: Vector) -> Vector:
        r"""Return :math:`D \dot x`, (n,); overwritten by the next call.

        Args:
            inertia_inv: :math:`\Lambda^{-1}`, (n, n).
            rate: :math:`\dot x`, (n,).
        """
        self.design(inertia_inv)
        return self.apply(rate)

    def design(self, inertia_inv: Matrix) -> None:
        r"""Make D anew for :math:`\Lambda^{-1}`, (n, n), and the root of now."""
        if self._is_diagonal:
            normal = _multiply(inertia_inv, self._pairs, self._normal)
        else:
            root = self._root
            normal = _dot(root.T, _dot(inertia_inv, root, self._product), self._normal)
        _add(normal, self._regular, normal)
        eigen = self._eigen
        eigen.compute(normal)
        # No eigenvalue is above the trace, which takes half the time of asking for them.
        if sum(self._diagonal.tolist()) <= self._free or eigen.eigenvalues()[-1] <= self._free:
            core: Matrix = eigen.operatorInverseSqrt()
            self.kept = 1.0
        else:
            core = self._bound(inertia_inv)
        if self._is_diagonal:
            _multiply(core, self._twice_pairs, self.damping)
        else:
            _dot(_dot(self._twice, core, self._product), self._root.T, self.damping)

    def _bound(self, inertia_inv: Matrix) -> Matrix:
        """Cut the modes that are too fast, from the eigenvalues of N that were just found."""
        eigen, half, limit = self._eigen, self._half, self._limit
        w, v = np.maximum(eigen.eigenvalues(), self.REGULARISATION), eigen.eigenvectors()
        core: Matrix = _dot(v * (np.sqrt(np.minimum(w, limit)) / w), v.T)
        if self._equal_ratio:
            w = w / self._equal_ratio**2
        else:
            eigen.compute(_dot(half.T, _dot(inertia_inv, half)) + self._regular)
            w, v = np.maximum(eigen.eigenvalues(), self.REGULARISATION), eigen.eigenvectors()
        keep = np.minimum(1.0, limit / w)
        self.kept = float(keep[-1])
        if self.kept < 1.0:
            scaled = _dot(half, v)
            self.stiffness = _dot(scaled * keep, scaled.T)
        return core

    def apply(self, rate: Vector, out: Vector | None = None) -> Vector:
        r"""Return :math:`D \dot x`, (n,), with the D of the last :meth:`design`.

        It is written to ``out``, or overwritten by the next call.
        """
        return self.damping.dot(rate, self._brake if out is None else out)
