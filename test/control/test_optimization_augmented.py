# SPDX-License-Identifier: Apache-2.0
"""Integral action of a plan against explicit sums, and its anti-windup."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY

from multipanda_py.control.optimization_augmented import IntegralAction
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

STIFFNESS = np.array([600.0, 600, 600, 600, 250, 150, 50])
NONE = np.zeros(6)


@pytest.fixture
def rig():
    (state,) = StateMaker().states_at([READY])
    integral = IntegralAction(state.limits, PERIOD, STIFFNESS)
    integral.set_gains(2.0, STIFFNESS, np.ones(7), 0.1)
    return integral, state


def test_torque_is_gain_times_stiffness_times_error_integral(rig):
    integral, state = rig
    error = np.linspace(-0.01, 0.01, 7)
    for _ in range(50):
        found = integral.step(state, error, NONE, 0.0)
    assert found == pytest.approx(2.0 * STIFFNESS * 50 * PERIOD * error)


def test_torque_stays_within_fraction_of_limits(rig):
    integral, state = rig
    for _ in range(3000):
        found = integral.step(state, np.full(7, 0.1), NONE, 0.0)
    assert found == pytest.approx(0.1 * state.limits.torque)
    for _ in range(100):
        found = integral.step(state, np.full(7, -0.1), NONE, 0.0)
    back = 0.1 * state.limits.torque - 2.0 * STIFFNESS * 100 * PERIOD * 0.1
    assert found == pytest.approx(np.maximum(back, -0.1 * state.limits.torque))


def test_saturated_joint_integrates_only_back(rig):
    integral, state = rig
    state.tau[:] = 0.0
    state.tau[1] = state.limits.torque[1]
    found = integral.step(state, np.full(7, 0.01), NONE, 0.0)
    assert found[1] == 0.0
    assert (np.delete(found, 1) > 0.0).all()
    assert integral.step(state, np.full(7, -0.01), NONE, 0.0)[1] < 0.0


def test_error_blocked_by_contact_is_not_integrated(rig):
    """Joint errors along u alone, as a contact causes them, are removed; others stay."""
    integral, state = rig
    u = np.array([0.0, 0.6, -0.8, 0.0, 0.0, 0.0])
    along = state.jacobian.T @ u
    off = np.linalg.solve(state.mass_matrix, along)
    found = integral.step(state, 0.01 * off, u, 1.0).copy()
    assert found == pytest.approx(np.zeros(7), abs=1e-15)
    error = np.linspace(-0.01, 0.01, 7)
    across = error - off * (along @ error) / (along @ off)
    found = integral.step(state, error, u, 1.0)
    assert found == pytest.approx(2.0 * STIFFNESS * PERIOD * across)
    assert along @ (found / STIFFNESS) == pytest.approx(0.0, abs=1e-15)
