# SPDX-License-Identifier: Apache-2.0
"""The brake dissipates for any mass matrix and releases in time for the rate limit."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.brakes import MomentumBrake
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def test_brake_dissipates_for_any_mass_matrix():
    rng = np.random.default_rng(1)
    brake = MomentumBrake(FR3_LIMITS, 75.0)
    for _ in range(500):
        root = rng.normal(size=(7, 7)) * rng.uniform(0.01, 1.0, 7)
        mass = root @ root.T + 1e-3 * np.eye(7)
        velocity = rng.normal(size=7) * 10.0 ** rng.uniform(-4, 1)
        brake.weigh(mass)
        tau = brake.torque(mass, velocity)
        assert tau @ velocity < 0.0
        assert brake.torque(mass, velocity, 0.0) @ velocity <= 0.0


def test_brake_is_zero_at_rest():
    (state,) = StateMaker(1).random(np.random.default_rng(2))
    brake = MomentumBrake(FR3_LIMITS, 75.0)
    brake.weigh(state.mass_matrix)
    assert not brake.torque(state.mass_matrix, np.zeros(7)).any()


@pytest.mark.parametrize("speed", [0.05, 0.5, 2.5, 5.0])
def test_brake_decays_small_motions_and_stops_rate_limited_ones(speed):
    """Joint of 1 kg m^2 with 1000 Nm/s, against the time-optimal stop, without reversal."""
    brake, mass, tau, v, travel = MomentumBrake(FR3_LIMITS, 75.0), np.eye(7), 0.0, speed, 0.0
    slowest = v
    for _ in range(600):
        velocity = np.array([v, *np.zeros(6)]) + brake.PREDICTION_TIME * np.array(
            [tau, *np.zeros(6)]
        )
        brake.weigh(mass)
        tau += float(np.clip(brake.torque(mass, velocity)[0] - tau, -1.0, 1.0))
        v += tau * 1e-3
        travel += v * 1e-3
        slowest = min(slowest, v)
    assert abs(v) < 1e-6
    assert slowest > -0.02 * speed
    # Ramp up for sqrt(p / r) and down for as long: p sqrt(p / r) of travel.
    best = speed * np.sqrt(speed / 1000.0)
    assert travel < 1.6 * best + speed / 75.0
