# SPDX-License-Identifier: Apache-2.0
"""Dynamic time warping of two paths."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def warp(one: Vector, other: Vector, band: float = 0.1) -> NDArray[np.intp]:
    r"""Return the pairs of corresponding samples of two paths.

    .. math::
        D_{ij} = |a_i - b_j| + \min(D_{i-1,j},\, D_{i-1,j-1},\, D_{i,j-1}), \qquad
        \left| j - i \tfrac{m}{n} \right| \le \beta \max(n, m)

    Args:
        one: Path a, (n, d).
        other: Path b, (m, d).
        band: Maximum index offset of a pair as a fraction of the longer path.

    Returns:
        Pairs (i, j) from the first to the last samples, (pairs, 2).

    Source: Sakoe and Chiba, IEEE Trans. Acoustics, Speech, and Signal Processing 1978.
    """
    n, m = len(one), len(other)
    half_width = max(1, int(np.ceil(band * max(n, m))))
    costs = np.full((n + 1, m + 1), np.inf)
    costs[0, 0] = 0.0
    for i in range(1, n + 1):
        middle = i * m / n
        low, high = max(1, int(middle - half_width)), min(m, int(middle + half_width) + 1)
        distances = np.linalg.norm(other[low - 1 : high] - one[i - 1], axis=1).tolist()
        before, row, left = costs[i - 1], costs[i], np.inf
        above = np.minimum(before[low : high + 1], before[low - 1 : high]).tolist()
        for j, (distance, best) in enumerate(zip(distances, above), low):
            left = distance + min(best, left)
            row[j] = left
    pairs, i, j = [(n, m)], n, m
    while (i, j) != (1, 1):
        steps = ((i - 1, j - 1), (i - 1, j), (i, j - 1))
        i, j = min(steps, key=lambda step: costs[step])
        pairs.append((i, j))
    return np.array(pairs[::-1]) - 1


def warped_rmse(one: Vector, other: Vector, band: float = 0.1) -> float:
    """Return the RMS distance of two paths after warping."""
    pairs = warp(one, other, band)
    offsets = one[pairs[:, 0]] - other[pairs[:, 1]]
    return float(np.sqrt(np.square(offsets).sum(axis=1).mean()))
