# SPDX-License-Identifier: Apache-2.0
"""Inputs of residual networks."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.inputs import Inputs, Normalisation

pytestmark = pytest.mark.inline

SCALE = Normalisation.of_limits(
    np.array([-1.0, -2.0]), np.array([1.0, 2.0]), np.array([3.0, 2.0]), np.array([50.0, 20.0])
)


def test_friction_speeds_extend_state():
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 6)) * [1, 2, 0.1, 0.1, 9, 9]
    states = SCALE.state(rows)
    found = Inputs(SCALE, np.array([0.01, 0.2])).rows(states)
    expected = np.hstack([states, np.tanh(rows[:, 2:4] / 0.01), np.tanh(rows[:, 2:4] / 0.2)])
    assert found == pytest.approx(expected, abs=1e-12)
    assert np.array_equal(Inputs(SCALE, np.zeros(0)).rows(states), states)


def test_springs_start_at_rest_in_every_motion():
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, (30, 6)) * [0.05, 0.02, 0.1, 0.1, 9, 9]
    inputs, distances = Inputs(SCALE, np.array([0.1]), [0.01, 0.2]), (0.01, 0.2)
    found = inputs.rows(SCALE.state(rows))
    assert found.shape == (30, inputs.size)
    for number, distance in enumerate(distances):
        deflection = np.zeros((30, 2))
        for k in range(1, 30):
            step = 2.0 * (rows[k, :2] - rows[k - 1, :2]) / distance
            deflection[k] = np.clip(deflection[k - 1] + step, -1.0, 1.0)
        assert found[:, 8 + 2 * number : 10 + 2 * number] == pytest.approx(deflection, abs=1e-9)
    assert np.array_equal(inputs.rows(SCALE.state(rows)), found)
    inputs.rows(SCALE.state(rows[:10]))
    saved = copy.deepcopy(inputs.internal_state())
    other = Inputs(SCALE, np.array([0.1]), [0.01, 0.2])
    other.restore(saved)
    assert np.array_equal(other.compute(SCALE.state(rows[10])), found[10])


@pytest.mark.parametrize("speeds", [[0.0], [-0.1], [np.nan], [[0.1]]])
def test_invalid_speeds_are_refused(speeds):
    with pytest.raises(ConfigurationError, match="speeds: got"):
        Inputs(SCALE, np.array(speeds))
