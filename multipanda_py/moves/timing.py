# SPDX-License-Identifier: Apache-2.0
"""How fast a path is gone."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.planning.quintic import evaluate
from multipanda_py.planning.trajectory import complete
from multipanda_py.state import Matrix, Vector

SAMPLES = 10
"""Between two points, for velocities and accelerations."""
SHORTEST = 0.2
"""Of a motion [s]."""


def timed(shares: Vector, path: Matrix, velocity: Vector, acceleration: Vector) -> Matrix:
    r"""Return a path as points in the shortest time that keeps limits, from rest to rest.

    .. math:: T = \max_{i,s} \left( \frac{|q_i'(s)|}{\dot q_{max,i}},\
        \sqrt{\frac{|q_i''(s)|}{\ddot q_{max,i}}} \right)

    over the quintics between points at shares s of the time: the course of the speed is that of
    the path, which was found with small accelerations, and only its scale is chosen.

    Args:
        shares: Of the time at every point, growing from 0 to 1, (p,).
        path: Positions of m joints, (p, m).
        velocity: Largest ones, (m,).
        acceleration: Largest ones, (m,).

    Returns:
        Points, (p, 1 + 3 m).
    """
    rows = complete(shares, path)
    steps = np.diff(shares)[:, None] * np.arange(SAMPLES) / SAMPLES
    _, rate, curvature = evaluate(rows, (shares[:-1, None] + steps).ravel()).transpose(1, 0, 2)
    fastest = float((np.abs(rate) / velocity).max())
    sharpest = math.sqrt(float((np.abs(curvature) / acceleration).max()))
    duration = max(fastest, sharpest, SHORTEST)
    m = path.shape[1]
    rows[:, 0] *= duration
    rows[:, 1 + m : 1 + 2 * m] /= duration
    rows[:, 1 + 2 * m :] /= duration**2
    return rows
