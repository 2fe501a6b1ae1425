# SPDX-License-Identifier: Apache-2.0
"""Quintic segments against an independent solution of their six conditions."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import Polynomial

from multipanda_py.planning.trajectory import quintic
from multipanda_py.planning.trajectory.quintic import Quintic, evaluate

pytestmark = pytest.mark.inline


def solved(begin, end, duration):
    """Solve one polynomial per joint, by a linear system in plain powers of time."""
    found = []
    for joint in range(7):
        rows, values = [], []
        for time, state in ((0.0, begin), (duration, end)):
            for order in range(3):
                powers = [Polynomial.basis(k).deriv(order)(time) for k in range(6)]
                rows.append(powers)
                values.append(state[7 * order + joint])
        found.append(Polynomial(np.linalg.solve(rows, values)))
    return found


@pytest.mark.parametrize("duration", [0.3, 1.0, 2.7])
def test_segment_meets_its_six_conditions(duration):
    rng = np.random.default_rng(1)
    segment, out = Quintic(7), np.zeros(21)
    for _ in range(10):
        begin, end = rng.normal(size=(2, 21))
        segment.join(begin, end, duration)
        polynomials = solved(begin, end, duration)
        for time in np.linspace(0.0, duration, 9):
            segment.sample(time, out)
            for joint, p in enumerate(polynomials):
                expected = [p(time), p.deriv()(time), p.deriv(2)(time)]
                assert np.allclose(out[joint::7], expected, rtol=0, atol=1e-9)


def test_path_consists_of_its_segments():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(6, 22))
    rows[:, 0] = np.cumsum(rng.uniform(0.2, 1.0, 6))
    times = rng.uniform(rows[0, 0], rows[-1, 0], 50)
    path = evaluate(rows, times)
    for time, state in zip(times, path):
        at = int(np.searchsorted(rows[:, 0], time)) - 1
        polynomials = solved(rows[at, 1:], rows[at + 1, 1:], rows[at + 1, 0] - rows[at, 0])
        since = time - rows[at, 0]
        expected = [[p.deriv(k)(since) if k else p(since) for p in polynomials] for k in range(3)]
        assert np.allclose(state, expected, rtol=0, atol=1e-8)
    assert np.allclose(evaluate(rows, rows[:, 0]).reshape(6, 21), rows[:, 1:], atol=1e-9)


def test_peaks_from_rest_to_rest():
    segment, out = Quintic(7), np.zeros(21)
    for first, peaks in (
        (0, [None, quintic.PEAK_RATE, quintic.PEAK_CURVATURE]),
        (7, [None, None, quintic.PEAK_CURVATURE_OF_RATE]),
    ):
        begin = np.zeros(21)
        begin[first] = 1.0
        segment.join(begin, np.zeros(21), 1.0)
        path = np.array([segment.sample(t, out).copy() for t in np.linspace(0, 1, 4001)])
        for order, peak in enumerate(peaks):
            if peak is not None:
                assert np.abs(path[:, 7 * order]).max() == pytest.approx(peak, rel=1e-3)
