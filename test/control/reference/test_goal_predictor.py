# SPDX-License-Identifier: Apache-2.0
"""Prediction of streamed goals against known motions."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.target_estimation import GoalPredictor

pytestmark = pytest.mark.inline

DT = 1e-3
HARDEST, HOLD = 5.0, 0.1


def predicted(samples, cycles, rates=None):
    """Return the predictor and its prediction per cycle, for samples {cycle: goal}."""
    predictor, observed, goal = GoalPredictor(1, DT), np.zeros((cycles, 2)), 0.0
    for k in range(cycles):
        predictor.tick()
        if k in samples:
            goal = samples[k]
            rate = None if rates is None else [rates[k]]
            predictor.sample([goal], rate, HARDEST, HOLD)
        if predictor.active:
            predictor.advance()
        observed[k] = (
            (predictor.position[0], predictor.velocity[0]) if predictor.active else (goal, 0)
        )
    return predictor, observed


@pytest.mark.parametrize("every", [2, 10, 33, 50])
def test_ramp_is_followed_with_expected_lag_without_ripple(every):
    ramp = {k: 0.5 * k * DT for k in range(0, 3000, every)}
    _, observed = predicted(ramp, 3000)
    rate = min(28.0, max(8.0, 1.55 * (every * DT) ** (-2 / 3)))
    late = np.arange(2500, 3000) * DT - observed[2500:, 0] / 0.5
    assert late.mean() == pytest.approx(3 * 0.13 / rate, abs=1.5e-3)
    assert np.ptp(late) < 2e-3
    np.testing.assert_allclose(observed[2500:, 1], 0.5, rtol=0.02)


def test_one_or_two_jumps_are_no_motion():
    for samples in ({100: 0.3}, {100: 0.3, 150: 0.0}, {100: 0.3, 130: -0.3, 160: 0.2}):
        predictor, observed = predicted(samples, 1000)
        assert not predictor.active
        assert np.abs(observed[:, 1]).max() == 0.0


def test_jump_in_stream_shifts_position_and_keeps_velocity():
    stream = {k: 0.5 * k * DT + (0.3 if k >= 1000 else 0.0) for k in range(0, 2000, 10)}
    _, observed = predicted(stream, 2000)
    np.testing.assert_allclose(observed[900:1990, 1], 0.5, rtol=0.03)
    assert observed[1000, 0] - observed[999, 0] == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize(("every", "farthest"), [(2, 0.055), (10, 0.055), (33, 0.12)])
def test_ended_stream_returns_to_its_last_sample(every, farthest):
    ramp = {k: 0.95 * k * DT for k in range(0, 1000, every)}
    predictor, observed = predicted(ramp, 4000)
    last = max(ramp.values())
    assert observed[:, 0].max() - last < farthest
    assert not predictor.active
    assert observed[-1, 0] == last


def test_received_velocities_improve_prediction():
    time = np.arange(4000) * DT
    goal, rate = 0.3 * (1 - np.cos(3 * time)), 0.9 * np.sin(3 * time)
    errors = []
    for rates in (None, rate):
        _, observed = predicted({k: goal[k] for k in range(0, 4000, 33)}, 4000, rates)
        errors.append(np.sqrt(((observed[500:, 0] - goal[500:]) ** 2).mean()))
    assert errors[1] < 0.95 * errors[0]
