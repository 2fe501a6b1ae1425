# SPDX-License-Identifier: Apache-2.0
"""Slipping springs against the hysteresis of simulated joints and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.arm_section import PerturbationConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.residual.inputs import SlipSprings
from multipanda_py.simulation.drivetrain.friction import SLIP_DISTANCES, Hysteresis

pytestmark = pytest.mark.inline

UNIT = np.array([2.0, 0.5])


def springs(distances):
    return SlipSprings(np.array(distances), UNIT, np.zeros(2 * len(distances)))


def test_springs_form_hysteresis_loop():
    found, deflections = springs([0.1]), []
    for motion in (0.3, 0.32, 0.35, 0.45, 0.40, 0.35, 0.30):
        found.follow(np.array([motion, 0.3]) / UNIT)
        deflections.append(found.deflection.copy())
    expected = [0.0, 0.4, 1.0, 1.0, 0.0, -1.0, -1.0]
    assert np.array(deflections)[:, 0] == pytest.approx(expected, abs=1e-12)
    assert not np.array(deflections)[:, 1].any()
    found.reset()
    found.follow(np.array([9.0, 9.0]))  # the first position is the rest position
    assert not found.deflection.any()


@pytest.mark.parametrize("seed", range(3))
def test_springs_of_simulated_joint_equal_its_hysteresis(seed):
    rng = np.random.default_rng(seed)
    q, tau = np.zeros(7), np.zeros(7)
    settings = PerturbationConfig(hysteresis=[0.8] * 7, hysteresis_distance=[0.03] * 7)
    stage = Hysteresis(settings, q)
    found = SlipSprings(0.03 * np.array(SLIP_DISTANCES), np.ones(7), np.zeros(28))
    for motion in 0.004 * rng.normal(size=(500, 7)):
        found.follow(q)
        tau[:] = 0.0
        stage.execute(tau)
        assert tau == pytest.approx(-0.2 * found.deflection.reshape(4, 7).sum(axis=0), abs=1e-12)
        q += motion
    assert np.abs(found.deflection).max() == 1.0


@pytest.mark.parametrize("distances", [[0.0], [-0.1], [np.nan], [[0.1]]])
def test_invalid_distances_are_refused(distances):
    with pytest.raises(ConfigurationError, match="distances: got"):
        SlipSprings(np.array(distances), UNIT, np.zeros(2))
