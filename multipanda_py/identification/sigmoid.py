# SPDX-License-Identifier: Apache-2.0
"""How friction turns round near rest, found from torques."""

from __future__ import annotations

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.identification.base_parameters import BaseParameters
from multipanda_py.identification.friction import FrictionShape
from multipanda_py.identification.stack import Stack, thinned
from multipanda_py.state import Matrix, Vector

WIDEST, NARROWEST = 1.0, 0.005
"""Of a sigmoid [rad/s, m/s]; wider ones are viscous friction."""
WIDTHS = np.geomspace(NARROWEST, WIDEST, 9)
"""Where the search begins, from the best of them."""
SWEEPS = 2
"""Over all joints, to find that beginning."""
FURTHEST = 5.0
"""Of a shift, in what it may well be."""


def fit_shape(
    stack: Stack, base: BaseParameters, cutoff: float, noise: Vector, prior: float = 0.02
) -> FrictionShape:
    r"""Return width and shift of every joint's sigmoid.

    .. math:: \min_{w, s} \min_{\beta, f, \delta} \sum_j \nu \sigma_j^{-2}
        \| A_{b,j} \beta + F_{w_j, s_j} f_j - \delta \dot \tau_j - \tau_j \|^2

    with all that is linear found anew for every shape (variable projection). The base parameters
    are those of all joints together: left to each joint by itself, what it carries has freedom
    enough to stand in for most of its friction. A delay of torques would look like friction that
    turns round late, so it is found along. A small pull keeps the shift near zero where the data
    do not tell.

    Args:
        stack: Of the motions.
        base: Combinations of its columns.
        cutoff: Of the stack's filter [Hz].
        noise: Standard deviations of the torques, (n,) [Nm].
        prior: What a shift may well be [rad/s].

    Source: Golub and Pereyra, The differentiation of pseudo-inverses and nonlinear least squares
    problems whose variables separate, 1973.
    """
    search = _Search(stack, base, cutoff, noise, prior)
    n = len(noise)
    x = np.concatenate([np.full(n, np.log(WIDTHS[len(WIDTHS) // 2])), np.zeros(n)])
    for _ in range(SWEEPS):
        for joint in range(n):
            trials = np.tile(x, (len(WIDTHS), 1))
            trials[:, joint] = np.log(WIDTHS)
            x = min(trials, key=lambda trial: float((search.residual(trial) ** 2).sum()))
    low = np.concatenate([np.full(n, np.log(NARROWEST)), np.full(n, -FURTHEST)])
    high = np.concatenate([np.full(n, np.log(WIDEST)), np.full(n, FURTHEST)])
    inside = 1e-6
    start = np.clip(x, low + inside, high - inside)
    optimise = needed("scipy.optimize")
    found = optimise.least_squares(search.residual, start, bounds=(low, high), max_nfev=40).x
    return FrictionShape(np.exp(found[:n]), found[n:] * prior)


class _Search:
    """What shapes leave of the torques, with everything else at its best."""

    def __init__(
        self, stack: Stack, base: BaseParameters, cutoff: float, noise: Vector, prior: float
    ) -> None:
        samples, n = stack.tau.shape
        weight = np.tile(np.sqrt(stack.independent) / noise, samples)
        columns = np.concatenate([stack.rows[:, :, base.columns], -stack.slope[..., None]], axis=2)
        known = columns.reshape(samples * n, -1) * weight[:, None]
        length = np.linalg.norm(known, axis=0)
        q, r = np.linalg.qr(known[:, length > 0.0] / length[length > 0.0])
        self._known: Matrix = q[:, np.abs(np.diagonal(r)) > 1e-9]
        tau = stack.tau.ravel() * weight
        self._left: Vector = tau - self._known @ (self._known.T @ tau)
        self._parts, self._cutoff, self._prior = stack.parts, cutoff, prior
        self._weight = weight.reshape(samples, n)
        self._columns: list[Matrix] = [np.zeros((samples * n, 3)) for _ in range(n)]
        self._shapes = [(np.nan, np.nan)] * n

    def residual(self, x: Vector) -> Vector:
        """Return what is left, in standard deviations; x: logarithms of widths, shifts."""
        n = len(self._shapes)
        for joint in range(n):
            self._set(joint, float(x[joint]), float(x[n + joint]))
        terms = np.hstack(self._columns)
        values, *_ = np.linalg.lstsq(terms, self._left, rcond=1e-10)
        return np.concatenate([terms @ values - self._left, x[n:]])

    def _set(self, joint: int, logarithm: float, shift: float) -> None:
        """Compute the friction of a joint without what the others' parameters can be of it."""
        if self._shapes[joint] == (logarithm, shift):
            return
        self._shapes[joint] = (logarithm, shift)
        shape = FrictionShape(np.array([np.exp(logarithm)]), np.array([shift * self._prior]))
        own = np.concatenate(
            [
                thinned(shape.columns(p.dq[:, joint : joint + 1])[:, 0], self._cutoff, p.rate)
                for p in self._parts
            ]
        )
        own = own * self._weight[:, joint, None]
        n = len(self._shapes)
        terms = -(self._known @ (self._known[joint::n].T @ own))
        terms[joint::n] += own
        self._columns[joint] = terms
