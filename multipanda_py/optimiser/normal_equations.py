# SPDX-License-Identifier: Apache-2.0
"""Block-banded normal equations of a path: every slice sees a few before it."""

from __future__ import annotations

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.optimiser.term import Term
from multipanda_py.state import Matrix, Vector


class NormalEquations:
    r"""Sum :math:`H = \sum J^T W J` and :math:`g = \sum J^T W r`, and solve :math:`H s = -g`.

    Blocks of H on and below the diagonal are kept: [t, o] is the one of slices t and t - o.

    Args:
        slices: Number of them, T.
        size: Numbers of each, d.
        order: Largest number of slices that one looks back.
    """

    def __init__(self, slices: int, size: int, order: int) -> None:
        self._order = order
        self.blocks = np.zeros((slices, order + 1, size, size))
        self.gradient = np.zeros((slices, size))
        self._cholesky = needed("scipy.linalg").solveh_banded
        self._error = needed("scipy.linalg").LinAlgError
        band = size * (order + 1)
        t, o, a, b = np.indices(self.blocks.shape)
        below = (o * size + a - b >= 0) & (t >= o)
        row, column = (o * size + a - b)[below], ((t - o) * size + b)[below]
        self._from = np.flatnonzero(below)
        self._to = row * (slices * size) + column
        self._banded = np.zeros((band, slices * size))

    def clear(self) -> None:
        """Begin a new sum."""
        self.blocks[:], self.gradient[:] = 0.0, 0.0

    def add(self, term: Term, residual: Matrix, jacobian: Matrix | None, weight: Matrix) -> None:
        """Count a term with a weight of each of its numbers, (n, m)."""
        weighted = weight * residual
        k = term.order
        for j in range(k + 1):
            # Only slices of the path can move, not those before it.
            skip = max(0, j - term.first)
            rows = slice(term.first + skip - j, term.last - j)
            if term.columns is not None:
                factor = term.scale * term.factors[j]
                self.gradient[rows, term.columns] += factor * weighted[skip:]
            elif jacobian is not None:
                own = jacobian[skip:, j].transpose(0, 2, 1)
                self.gradient[rows] += (own @ weighted[skip:, :, None])[..., 0]
            for i in range(j, k + 1):
                skip_both = max(0, i - term.first)
                both = slice(term.first + skip_both - j, term.last - j)
                if term.columns is not None:
                    factor = term.scale**2 * term.factors[j] * term.factors[i]
                    at = term.columns
                    self.blocks[both, i - j, at, at] += factor * weight[skip_both:]
                elif jacobian is not None:
                    left = jacobian[skip_both:, j].transpose(0, 2, 1)
                    right = weight[skip_both:, :, None] * jacobian[skip_both:, i]
                    self.blocks[both, i - j] += left @ right

    def solve(self, damping: float) -> Matrix | None:
        """Return the step, (T, d), or None if H with the damping on its diagonal is singular."""
        banded = self._banded
        banded.reshape(-1)[self._to] = self.blocks.reshape(-1)[self._from]
        banded[0] += damping
        gradient: Vector = self.gradient.reshape(-1)
        try:
            step: Matrix = self._cholesky(banded, -gradient, lower=True, check_finite=False)
        except self._error:
            return None
        return step.reshape(self.gradient.shape) if np.isfinite(step).all() else None
