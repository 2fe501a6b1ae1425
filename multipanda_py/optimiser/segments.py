# SPDX-License-Identifier: Apache-2.0
"""The closest points of many pairs of line segments."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Matrix


def closest_points(first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
    r"""Return the closest points of segments, pair by pair.

    .. math:: \min_{0 \le s, t \le 1} |a_0 + s u - b_0 - t v|^2

    which is convex: s of the two lines, kept within its segment; t that is best for it, kept
    within; s that is best for that. Segments of no length are points.

    Args:
        first: Ends of the first of each pair, (..., 2, 3).
        second: Of the second.

    Returns:
        Points on the first, and on the second, (..., 3) each.
    """
    a, b = first[..., 0, :], second[..., 0, :]
    u, v, w = first[..., 1, :] - a, second[..., 1, :] - b, a - b
    uu, vv, uv, uw, vw = _dot(u, u), _dot(v, v), _dot(u, v), _dot(u, w), _dot(v, w)
    cross = uu * vv - uv * uv
    parallel = cross <= 1e-12 * np.maximum(uu * vv, 1e-30)
    s = np.where(parallel, 0.5, (uv * vw - vv * uw) / np.where(parallel, 1.0, cross))
    s = np.clip(s, 0.0, 1.0)
    t = np.clip((uv * s + vw) / np.where(vv > 0.0, vv, 1.0), 0.0, 1.0)
    s = np.clip((uv * t - uw) / np.where(uu > 0.0, uu, 1.0), 0.0, 1.0)
    return a + s[..., None] * u, b + t[..., None] * v


def _dot(a: Matrix, b: Matrix) -> Matrix:
    """Return products of vectors of three numbers; a sum along so short an axis takes longer."""
    found: Matrix = a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]
    return found
