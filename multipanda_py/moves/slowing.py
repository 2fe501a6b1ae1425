# SPDX-License-Identifier: Apache-2.0
"""Time scaling of a motion where only a fraction of its speed is allowed."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from multipanda_py.planning.quintic import evaluate
from multipanda_py.state import Matrix, Vector

WINDOW = 0.5
"""Time over which the speed falls and rises again [s]."""


def slowed(rows: Matrix, times: Vector, shares: Vector, most: int) -> Matrix:
    r"""Return points of the same path at a reduced speed.

    .. math:: q(t) = p(\tau(t)), \quad \dot\tau = r, \quad \dot q = r p', \quad
        \ddot q = r^2 p'' + r r' p'

    with r the moving average of the moving minimum of the shares, so that r is smooth and
    nowhere above them.

    Args:
        rows: Points, (p, 1 + 3 m).
        times: Times of the shares, evenly spaced over the motion, (k,) [s].
        shares: Allowed fractions of the speed at these times, 0 to 1, (k,).
        most: Maximum number of points.
    """
    half = max(1, round(0.5 * WINDOW / (times[1] - times[0])))
    least = _windows(shares, half).min(axis=1)
    rate = _windows(least, half).mean(axis=1)
    clock = np.concatenate([[0.0], np.cumsum(np.diff(times) * 2.0 / (rate[1:] + rate[:-1]))])
    knots = rows[:, 0]
    if 2 * len(rows) - 1 <= most:
        knots = np.sort(np.concatenate([knots, 0.5 * (knots[1:] + knots[:-1])]))
    q, dq, ddq = evaluate(rows, knots).transpose(1, 0, 2)
    r = np.interp(knots, times, rate)[:, None]
    change = np.interp(knots, times, np.gradient(rate, times))[:, None]
    found: Matrix = np.column_stack(
        [np.interp(knots, times, clock), q, r * dq, r * r * ddq + r * change * dq]
    )
    return found


def _windows(values: Vector, half: int) -> Matrix:
    """Return the windows around all values, (k, 2 half + 1)."""
    padded = np.pad(values, half, mode="edge")
    return sliding_window_view(padded, 2 * half + 1)
