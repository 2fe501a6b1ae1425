# SPDX-License-Identifier: Apache-2.0
"""Dynamic time warping against an exhaustive search over all pairings."""

import sys
from importlib import import_module

import numpy as np
import pytest
from repository import BENCHMARKS

sys.path.append(str(BENCHMARKS))
warping = import_module("parts.warping")


def minimum(one, other, i, j):
    """Return the minimum cost of all pairings up to a pair, by exhaustive search."""
    here = np.linalg.norm(one[i] - other[j])
    if i == j == 0:
        return here
    before = [(i - 1, j), (i - 1, j - 1), (i, j - 1)]
    return here + min(minimum(one, other, a, b) for a, b in before if a >= 0 and b >= 0)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 4), (5, 5), (4, 7), (7, 4)])
def test_pairing_has_minimum_cost(n, m):
    rng = np.random.default_rng(n + 10 * m)
    one, other = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    pairs = warping.warp(one, other, band=1.0)
    assert pairs[0].tolist() == [0, 0]
    assert pairs[-1].tolist() == [n - 1, m - 1]
    assert set(map(tuple, np.diff(pairs, axis=0))) <= {(0, 1), (1, 0), (1, 1)}
    cost = np.linalg.norm(one[pairs[:, 0]] - other[pairs[:, 1]], axis=1).sum()
    assert cost == pytest.approx(minimum(one, other, n - 1, m - 1))


def test_warped_error_ignores_speed_along_path():
    time = np.linspace(0.0, 1.0, 300)
    slow = np.stack([np.cos(time), np.sin(time)], axis=1)
    late = time**1.2
    other = np.stack([np.cos(late), np.sin(late)], axis=1)
    assert np.sqrt(np.square(slow - other).sum(axis=1).mean()) > 0.03
    assert warping.warped_rmse(slow, other) < 0.003
