# SPDX-License-Identifier: Apache-2.0
"""Errors of the sensors are as large as declared, and the same in every run."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.arm_section import NoiseConfig
from multipanda_py.simulation.drivetrain.sensors import SensorNoise
from multipanda_py.testing import StateMaker

pytestmark = [pytest.mark.sim, pytest.mark.inline]

BIAS = [0.5, -0.4, 0.3, -0.2, 0.1, -0.1, 0.05]
DRIFT = [0.02, 0.03, 0.02, 0.03, 0.01, 0.01, 0.01]
PERIOD = 1e-3


def test_a_bias_is_in_the_estimate_and_in_the_sensors(make_cell):
    clean, biased = make_cell(), make_cell({"left": {"noise": {"tau_bias": BIAS}}})
    for cell in (clean, biased):
        cell.step(3)
    np.testing.assert_allclose(biased.state("left").tau_ext, BIAS, atol=1e-12)
    felt = biased.state("left").tau_J - clean.state("left").tau_J
    np.testing.assert_allclose(felt, -np.array(BIAS), atol=1e-6)  # inverse dynamics less tau_J
    wrench = biased.state("left").wrench_ext_in_base
    jacobian = biased.loop.arms[0].state.jacobian
    np.testing.assert_allclose(jacobian @ jacobian.T @ wrench, jacobian @ BIAS, atol=1e-5)


def test_drift_grows_with_the_root_of_time():
    state = StateMaker().states[0]
    early, late = [], []
    for seed in range(60):
        noise = SensorNoise(NoiseConfig(tau_drift=DRIFT), seed, PERIOD)
        for cycle in range(1, 1601):
            state.tau_ext[:] = 0.0
            noise.measure(state)
            if cycle == 400:
                early.append(state.tau_ext / DRIFT)
        late.append(state.tau_ext / DRIFT)
    assert np.std(early) == pytest.approx(np.sqrt(0.4), rel=0.12)
    assert np.std(late) == pytest.approx(np.sqrt(1.6), rel=0.12)


def test_equal_seeds_give_equal_runs_and_drift_leaves_white_noise_as_it_is():
    def run(**extra):
        state = StateMaker().states[0]
        noise = SensorNoise(NoiseConfig(q=1e-4, tau=0.1, **extra), 3, PERIOD)
        found = []
        for _ in range(50):
            state.q[:] = state.tau_ext[:] = 0.0
            noise.measure(state)
            found.append([*state.q, *state.tau_ext])
        return np.array(found)

    np.testing.assert_array_equal(run(tau_drift=DRIFT), run(tau_drift=DRIFT))
    np.testing.assert_array_equal(run(tau_drift=DRIFT)[:, :7], run()[:, :7])
    np.testing.assert_allclose(run(tau_bias=BIAS)[:, 7:] - run()[:, 7:], [BIAS] * 50, atol=1e-12)
