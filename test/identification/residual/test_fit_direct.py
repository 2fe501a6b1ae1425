# SPDX-License-Identifier: Apache-2.0
"""Linear part of a residual: hysteresis of unknown distance."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.config.arm_section import PerturbationConfig
from multipanda_py.identification.residual.motions import TrainingMotion
from multipanda_py.identification.residual.networks import TrainingSettings
from multipanda_py.identification.residual.train import fit_direct
from multipanda_py.robots.residual.inputs import Inputs, Normalisation
from multipanda_py.simulation.drivetrain.friction import Hysteresis

pytestmark = pytest.mark.inline

N = 7
SCALE = Normalisation.of_limits(
    np.full(N, -2.0), np.full(N, 2.0), np.full(N, 3.0), np.full(N, 50.0)
)
USUAL = TrainingSettings()


def motions(count, seed, distances):
    """Return reversing motions as network inputs, with hysteresis of the transmission."""
    rng, found = np.random.default_rng(seed), []
    inputs = Inputs(SCALE, np.array(USUAL.speeds), distances)
    time = np.arange(400)[:, None] / 100.0
    for _ in range(count):
        q = sum(
            rng.uniform(0.005, 0.05, N) * np.sin(rng.uniform(0.5, 6.0, N) * time + phase)
            for phase in rng.uniform(0.0, 6.0, (2, N))
        )
        now, tau = q[0].copy(), np.zeros((400, N))
        settings = PerturbationConfig(hysteresis=[0.5] * N, hysteresis_distance=[0.023] * N)
        stage = Hysteresis(settings, now)
        for row, torque in zip(q, tau):
            now[:] = row
            stage.execute(torque)
        states = SCALE.state(np.hstack([q, np.gradient(q, 0.01, axis=0), 0.0 * q]))
        residual = np.hstack([np.zeros((400, 2 * N)), 0.3 - tau]) / SCALE.span
        found.append(TrainingMotion(inputs.rows(states), residual))
    return found


@pytest.mark.parametrize(("distances", "remaining_fraction"), [(USUAL.distances, 0.03), ((), 0.2)])
def test_hysteresis_needs_spring_inputs(distances, remaining_fraction):
    direct = fit_direct(motions(6, 0, distances), USUAL.weights)
    (observed,) = motions(1, 1, distances)
    unexplained = np.square(
        observed.residual - observed.inputs @ direct.weight.T - direct.bias
    ).mean(axis=0)
    unexplained = unexplained[2 * N :] / observed.residual[:, 2 * N :].var(axis=0)
    assert (
        (unexplained < remaining_fraction).all()
        if distances
        else (unexplained > remaining_fraction).all()
    )
    assert not direct.weight[N : 2 * N].any()  # velocities have zero weight


def test_joint_uses_own_speed_and_spring_inputs_only():
    direct = fit_direct(motions(3, 0, USUAL.distances), USUAL.weights)
    joint = np.arange(direct.weight.shape[1]) % N
    for i, row in enumerate(direct.weight):
        assert not row[joint != i % N].any()
        assert not row[:N].any()
        assert not row[2 * N : 3 * N].any()
