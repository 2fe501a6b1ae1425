# SPDX-License-Identifier: Apache-2.0
"""Operational-space terms against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def test_terms_agree_with_textbook_away_from_singularities():
    rng = np.random.default_rng(1)
    maker = StateMaker()
    checked = 0
    while checked < 100:
        (state,) = maker.random(rng)
        space = state.operational_space()
        inverse = state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T
        if np.linalg.eigvalsh(inverse)[0] < 1.1 * TaskInertia.MIN_MANIPULABILITY:
            continue
        checked += 1
        inertia = np.linalg.inv(inverse)
        assert np.allclose(space.inertia, inertia, rtol=1e-9)
        assert np.allclose(
            space.minv_jt, np.linalg.solve(state.mass_matrix, state.jacobian.T), atol=1e-9
        )
        assert space.damping == 0.0


def test_manipulability_is_smallest_axis_and_bounds_apparent_mass():
    """The maximum apparent mass is 1 / w_min above the threshold, and always below 58 kg."""
    rng = np.random.default_rng(2)
    maker = StateMaker()
    masses, manipulability = [], []
    for _ in range(500):
        (state,) = maker.random(rng)
        space = state.operational_space()
        # Squared semi-axes of the velocity ellipsoid at unit kinetic energy.
        half = np.linalg.cholesky(np.linalg.inv(state.mass_matrix))
        axes = np.linalg.svd(state.jacobian @ half, compute_uv=False) ** 2
        assert space.manipulability == pytest.approx(axes[-1], rel=1e-6, abs=1e-12)
        manipulability.append(axes[-1])
        masses.append(np.linalg.eigvalsh(space.inertia)[-1])
    masses, manipulability = np.array(masses), np.array(manipulability)
    sound = manipulability > TaskInertia.MIN_MANIPULABILITY
    assert 0.4 < sound.mean() < 0.8
    assert np.allclose(masses[sound], 1.0 / manipulability[sound], rtol=1e-6)
    assert 50.0 < masses.max() < 58.0


def test_inertia_is_bounded_for_stretched_arm():
    (state,) = StateMaker().states_at([np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.5707963, 0.0])])
    space = state.operational_space()
    assert space.damping > 0.0
    largest = np.linalg.eigvalsh(space.inertia)[-1]
    assert largest <= 1.0 / (2.0 * np.sqrt(space.damping)) * (1 + 1e-9)


@pytest.mark.parametrize("smallest", [0.0, 1e-12, 1e-3, TaskInertia.MIN_MANIPULABILITY * 0.999999])
def test_damping_starts_without_step(smallest):
    space = TaskInertia(7)
    jacobian = np.zeros((6, 7))
    jacobian[:6, :6] = np.eye(6)
    weights = np.full(7, 1.0)
    weights[0] = max(smallest, 1e-15)
    space.update(np.diag(1.0 / weights), jacobian)
    lam = TaskInertia.MAX_DAMPING**2 * (1 - (weights[0] / TaskInertia.MIN_MANIPULABILITY) ** 2)
    expected = np.sqrt(weights[0] / (weights[0] ** 2 + lam))
    assert space.inertia[0, 0] == pytest.approx(expected**2, rel=1e-6)
    if smallest == pytest.approx(TaskInertia.MIN_MANIPULABILITY, rel=1e-3):
        assert expected**2 == pytest.approx(1.0 / TaskInertia.MIN_MANIPULABILITY, rel=1e-3)
