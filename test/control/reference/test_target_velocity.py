# SPDX-License-Identifier: Apache-2.0
"""Estimated speed of a goal from its steps, against known speeds."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.reference.target_estimation import TargetVelocityEstimator

pytestmark = pytest.mark.inline

DT = 1e-3


def speeds(steps, cycles):
    """Return the speed per cycle for steps {cycle: size}."""
    goal, observed = TargetVelocityEstimator(DT), np.zeros(cycles)
    for k in range(cycles):
        if k in steps:
            goal.step(steps[k])
        goal.advance()
        observed[k] = goal.speed
    assert not goal.remembers or cycles - max(steps) < 1500
    return observed


@pytest.mark.parametrize("every", [1, 10, 33, 100])
def test_equal_steps_give_mean_speed(every):
    observed = speeds(dict.fromkeys(range(0, 2000, every), 0.2 * DT * every), 2000)
    assert observed[1000:].mean() == pytest.approx(0.2, rel=0.02)
    assert observed[1000:].min() > 0.6 * 0.2
    assert observed[250] > 0.5 * 0.2


def test_single_step_is_no_motion():
    assert speeds({100: 0.5}, 3000).max() == 0.0


def test_steps_far_apart_are_no_motion():
    assert speeds(dict.fromkeys(range(0, 3000, 300), 0.05), 3000).max() == 0.0


def test_jump_of_noisy_goal_is_no_motion():
    rng = np.random.default_rng(0)
    steps = {k: float(rng.uniform(0, 1e-4)) for k in range(0, 2000, 10)}
    trembling = speeds(steps, 2000).max()
    assert (
        speeds(steps | {1000: 0.1}, 2000).max()
        < trembling + 1e-4 / TargetVelocityEstimator.FILTER_TIME
    )


def test_speed_decays_after_end_of_stream():
    observed = speeds(dict.fromkeys(range(1000), 0.0002), 4000)
    assert observed[1400] < 0.01 * observed[999]
    assert observed[-1] == 0.0
