# SPDX-License-Identifier: Apache-2.0
"""Damping that fits a stiffness and an inertia, mode by mode."""

from __future__ import annotations

import eigenpy
import numpy as np

from multipanda_py.state import Matrix

_dot = np.dot


class ModalDamping:
    r"""Design the damping that gives every mode of an inertia and a stiffness the same ratio.

    .. math::
        D = 2 \zeta\, K^{1/2} N^{-1/2} K^{1/2}, \qquad
        N = K^{1/2} \Lambda^{-1} K^{1/2} + \epsilon I

    For :math:`\epsilon = 0` this is twice the ratio times the geometric mean of :math:`\Lambda`
    and K: with :math:`\Lambda = Q^T Q` and :math:`K = Q^T B Q`, :math:`D = 2 \zeta Q^T B^{1/2} Q`,
    the double-diagonalisation design of Albu-Schäffer, Ott, Frese and Hirzinger, ICRA 2003.

    D is positive semidefinite for any positive semidefinite K, and zero where K is zero: a
    direction without a spring is neither braked nor driven. (The sum
    :math:`\Lambda^{1/2} Z K^{1/2} + K^{1/2} Z \Lambda^{1/2}` is indefinite there.) It is written
    with :math:`\Lambda^{-1}`, so nothing has to be inverted in singular postures;
    :math:`\epsilon` keeps it finite in directions in which the tool cannot move.

    Thread: control.
    """

    REGULARISATION = 1e-8
    """Far below the squared frequency of any useful spring on the arm [1/s^2]."""

    def __init__(self) -> None:
        self._eigen = eigenpy.SelfAdjointEigenSolver(np.eye(6))
        self._regular = self.REGULARISATION * np.eye(6)
        self._half, self._normal, self._damping = (np.zeros((6, 6)) for _ in range(3))

    def of(self, stiffness_sqrt: Matrix, inertia_inv: Matrix, ratio: float) -> Matrix:
        r"""Return D, (6, 6); overwritten by the next call.

        Args:
            stiffness_sqrt: :math:`K^{1/2}`, symmetric positive semidefinite, (6, 6).
            inertia_inv: :math:`\Lambda^{-1} = J M^{-1} J^T`, (6, 6).
            ratio: Damping ratio of every mode.
        """
        half, normal = self._half, self._normal
        _dot(stiffness_sqrt, _dot(inertia_inv, stiffness_sqrt, half), normal)
        normal += self._regular
        self._eigen.compute(normal)
        _dot(stiffness_sqrt, _dot(self._eigen.operatorInverseSqrt(), stiffness_sqrt, half), normal)
        return np.multiply(normal, 2.0 * ratio, self._damping)
