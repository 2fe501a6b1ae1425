# SPDX-License-Identifier: Apache-2.0
"""Damping near singular postures: only lost directions, continuous, bounded, dissipative."""

from __future__ import annotations

import numpy as np
import pytest
from postures import stretched

from multipanda_py.controllets.features.singularity import Singularity, SingularityParams
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

CONTEXT = StateMaker().context
RATE, THRESHOLD = SingularityParams().rate, SingularityParams().threshold


def added(state, params=None):
    feature, tau = Singularity(CONTEXT, params or SingularityParams()), [np.zeros(7)]
    feature.add([state], CartesianTarget(1), tau, PERIOD)
    return tau[0]


def test_motion_along_a_lost_direction_decays_at_the_rate_and_no_other():
    rng, maker, checked = np.random.default_rng(1), StateMaker(), 0
    while checked < 30:
        state = stretched(maker, rng.uniform(-0.5, -0.1), rng.normal(size=7) * 0.5)
        j, minv = state.jacobian, np.linalg.inv(state.mass)
        w, v = np.linalg.eigh(j @ minv @ j.T)
        if w[0] > THRESHOLD or w[0] < 1e-5:
            continue
        checked += 1
        rho = RATE * np.maximum(1 - w / THRESHOLD, 0) ** 2
        acceleration = v.T @ j @ minv @ added(state)
        assert np.allclose(acceleration, -rho * (v.T @ j @ state.dq), rtol=1e-6, atol=1e-9)


def test_nothing_is_added_where_no_direction_is_lost():
    rng, maker, checked = np.random.default_rng(2), StateMaker(), 0
    while checked < 20:
        (state,) = maker.random(rng, speed=1.0)
        w = np.linalg.eigvalsh(state.jacobian @ np.linalg.inv(state.mass) @ state.jacobian.T)
        if w[0] > THRESHOLD:
            checked += 1
            assert not added(state).any()


def test_stretching_is_continuous_bounded_and_dissipative_down_to_the_singular_posture():
    maker, dq = StateMaker(), np.array([0.1, -0.2, 0.3, 0.5, -0.1, 0.2, 0.1])
    taus = []
    for elbow in np.linspace(-1.3, -0.002, 6001):
        state = stretched(maker, elbow, dq)
        taus.append(added(state).copy())
        assert taus[-1] @ dq <= 1e-12
    steps = np.abs(np.diff(taus, axis=0)).max()
    assert np.isfinite(taus).all()
    assert not taus[0].any()
    assert np.abs(taus).max() < 50.0
    assert np.abs(taus).max() > 0.1
    assert steps < 0.2  # and half of it at half the step
