# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.planning.motions.motion_check import MIN_DURATION, timed
from multipanda_py.planning.trajectory.quintic import evaluate

pytestmark = pytest.mark.inline


def smooth(distances, points=17):
    s = np.linspace(0.0, 1.0, points)
    return s, np.outer(s**3 * (10.0 - 15.0 * s + 6.0 * s**2), distances)


@pytest.mark.parametrize(
    ("velocity", "acceleration", "expected"),
    [  # of the quintic from rest to rest: 1.875 d / T and 5.7735 d / T^2
        ([1.0, 1.0], [1e6, 1e6], 1.875 * 2.0),
        ([1e6, 1e6], [1.0, 1.0], np.sqrt(10.0 / np.sqrt(3.0) * 2.0)),
        ([1e6, 0.1], [1e6, 1e6], 1.875 * 0.5 / 0.1),
    ],
)
def test_duration_is_that_of_slowest_joint(velocity, acceleration, expected):
    s, path = smooth([2.0, -0.5], 65)
    rows = timed(s, path, np.array(velocity), np.array(acceleration))
    assert rows[-1, 0] == pytest.approx(expected, rel=5e-3)
    np.testing.assert_array_equal(rows[:, 1:3], path)


@pytest.mark.parametrize("seed", range(5))
def test_limits_hold_between_points_and_ends_rest(seed):
    rng = np.random.default_rng(seed)
    s, base = smooth(rng.uniform(-2.0, 2.0, 7))
    path = base + 0.1 * rng.normal(size=7) * np.sin(2 * np.pi * s)[:, None] ** 3
    velocity, acceleration = rng.uniform(0.5, 2.0, 7), rng.uniform(1.0, 10.0, 7)
    rows = timed(s, path, velocity, acceleration)
    q, dq, ddq = evaluate(rows, np.linspace(0.0, rows[-1, 0], 3000)).transpose(1, 0, 2)
    fractions = np.abs(dq / velocity).max(), np.sqrt(np.abs(ddq / acceleration).max())
    assert max(fractions) == pytest.approx(1.0, abs=0.02)
    assert not dq[[0, -1]].any()
    np.testing.assert_allclose(q[[0, -1]], path[[0, -1]], atol=1e-12)


def test_motion_of_zero_length_takes_minimum_duration():
    rows = timed(np.linspace(0.0, 1.0, 5), np.ones((5, 3)), np.ones(3), np.ones(3))
    assert rows[-1, 0] == MIN_DURATION
    assert not rows[:, 4:].any()
