# SPDX-License-Identifier: Apache-2.0
"""Damping that fits a stiffness and an inertia, mode by mode."""

from __future__ import annotations

import eigenpy
import numpy as np

from multipanda_py.state import Matrix, Vector

_dot = np.dot


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

    Args:
        size: Number of axes.

    Thread: control.
    """

    REGULARISATION = 1e-8
    """Far below the squared frequency of any useful spring on the arm [1/s^2]."""

    def __init__(self, size: int = 6) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(size))
        self._regular = self.REGULARISATION * np.eye(size)
        self._half, self._normal, self._damping = (np.zeros((size, size)) for _ in range(3))
        self._modes, self._brake = np.zeros(size), np.zeros(size)
        self.set_root(np.eye(size))

    def set_root(self, root: Matrix) -> None:
        r"""Set :math:`G = K^{1/2} Z`, (n, n), for :meth:`brake`; a diagonal one is cheaper."""
        self._root = np.array(root)
        self._axes = np.diag(root).copy()
        self._pairs = np.outer(self._axes, self._axes)
        self._is_diagonal = not np.any(root - np.diag(self._axes))

    def brake(self, inertia_inv: Matrix, rate: Vector) -> Vector:
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
            normal = np.multiply(inertia_inv, self._pairs, self._normal)
            np.add(normal, self._regular, normal)
            self._eigen.compute(normal)
            self._inverse: Matrix = self._eigen.operatorInverseSqrt()
        else:
            self._inverse = self._root_inverse(self._root, inertia_inv)

    def apply(self, rate: Vector) -> Vector:
        r"""Return :math:`D \dot x`, (n,), with the D of the last :meth:`design`."""
        modes, brake = self._modes, self._brake
        if self._is_diagonal:
            np.multiply(rate, self._axes, modes)
            _dot(self._inverse, modes, brake)
            np.multiply(brake, self._axes, brake)
        else:
            _dot(rate, self._root, modes)
            _dot(self._root, _dot(self._inverse, modes), brake)
        return np.multiply(brake, 2.0, brake)

    def of(self, root: Matrix, inertia_inv: Matrix, ratio: float = 1.0) -> Matrix:
        """Return D for a root G times ``ratio``, (n, n); overwritten by the next call."""
        inverse = self._root_inverse(root, inertia_inv)
        _dot(root, _dot(inverse, root.T, self._half), self._normal)
        return np.multiply(self._normal, 2.0 * ratio, self._damping)

    def _root_inverse(self, root: Matrix, inertia_inv: Matrix) -> Matrix:
        normal = _dot(root.T, _dot(inertia_inv, root, self._half), self._normal)
        np.add(normal, self._regular, normal)
        self._eigen.compute(normal)
        inverse: Matrix = self._eigen.operatorInverseSqrt()
        return inverse
