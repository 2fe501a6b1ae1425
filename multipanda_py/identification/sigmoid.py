# SPDX-License-Identifier: Apache-2.0
"""How friction turns round near rest, found from torques."""

from __future__ import annotations

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.identification.base_parameters import BaseParameters
from multipanda_py.identification.friction import FrictionShape
from multipanda_py.identification.stack import Stack, thinned
from multipanda_py.state import Vector

WIDEST, NARROWEST = 1.0, 0.005
"""Of a sigmoid [rad/s, m/s]; wider ones are viscous friction."""
WIDTHS = np.geomspace(NARROWEST, WIDEST, 9)
"""Where the search begins, from the best of them."""


def fit_shape(
    stack: Stack, base: BaseParameters, cutoff: float, prior: float = 0.02
) -> FrictionShape:
    r"""Return width and shift of every joint's sigmoid.

    .. math:: \min_{w, s} \min_{\beta, f} \| A_b \beta + F_{w, s} f - \tau_j \|^2

    for every joint by itself, with all parameters of the inside found anew (variable projection);
    those of the rest of the arm are only this joint's. A small pull keeps the shift near zero
    where the data do not tell.

    Args:
        stack: Of the motions.
        base: Combinations of its columns.
        cutoff: Of the stack's filter [Hz].
        prior: What a shift may well be [rad/s].
    """
    optimise = needed("scipy.optimize")
    n = stack.tau.shape[1]
    width, shift = np.empty(n), np.zeros(n)
    for joint in range(n):
        columns = stack.rows[:, joint, base.columns]
        used = np.linalg.norm(columns, axis=0) > 0.0
        q, r = np.linalg.qr(columns[:, used] / np.linalg.norm(columns[:, used], axis=0))
        q = q[:, np.abs(np.diagonal(r)) > 1e-6]
        tau = stack.tau[:, joint]
        left = tau - q @ (q.T @ tau)

        def residual(x: Vector, joint: int = joint, q: Vector = q, left: Vector = left) -> Vector:
            shape = FrictionShape(np.exp(x[:1]), x[1:] * prior)
            parts = [
                thinned(shape.columns(p.dq[:, joint : joint + 1])[:, 0], cutoff, p.rate)
                for p in stack.parts
            ]
            terms = np.concatenate(parts)
            terms = terms - q @ (q.T @ terms)
            values, *_ = np.linalg.lstsq(terms, left, rcond=1e-10)
            rms = np.sqrt((left**2).mean()) + 1e-12
            return np.append((terms @ values - left) / rms, 0.3 * x[1])

        start = min(
            (np.array([np.log(w), 0.0]) for w in WIDTHS),
            key=lambda x: float((residual(x) ** 2).sum()),
        )
        bounds = ([np.log(NARROWEST), -5.0], [np.log(WIDEST) + 1e-9, 5.0])
        start[0] = np.clip(start[0], bounds[0][0] + 1e-6, bounds[1][0] - 1e-6)
        found = optimise.least_squares(residual, start, bounds=bounds, max_nfev=40).x
        width[joint], shift[joint] = np.exp(found[0]), found[1] * prior
    return FrictionShape(width, shift)
