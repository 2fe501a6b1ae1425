# SPDX-License-Identifier: Apache-2.0
"""The speed of a goal from the steps in which it comes, against speeds known beforehand."""

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
def test_equal_steps_have_their_mean_speed(every):
    observed = speeds(dict.fromkeys(range(0, 2000, every), 0.2 * DT * every), 2000)
    assert observed[1000:].mean() == pytest.approx(0.2, rel=0.02)
    assert observed[1000:].min() > 0.6 * 0.2
    assert observed[250] > 0.5 * 0.2


def test_one_step_of_any_size_is_no_motion():
    assert speeds({100: 0.5}, 3000).max() == 0.0


def test_steps_far_apart_are_no_motion():
    assert speeds(dict.fromkeys(range(0, 3000, 300), 0.05), 3000).max() == 0.0


def test_a_jump_of_a_goal_that_trembles_is_no_motion():
    rng = np.random.default_rng(0)
    steps = {k: float(rng.uniform(0, 1e-4)) for k in range(0, 2000, 10)}
    trembling = speeds(steps, 2000).max()
    assert (
        speeds(steps | {1000: 0.1}, 2000).max()
        < trembling + 1e-4 / TargetVelocityEstimator.FILTER_TIME
    )


def test_a_stream_that_ends_is_forgotten():
    observed = speeds(dict.fromkeys(range(1000), 0.0002), 4000)
    assert observed[1400] < 0.01 * observed[999]
    assert observed[-1] == 0.0
