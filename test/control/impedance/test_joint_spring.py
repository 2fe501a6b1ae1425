# SPDX-License-Identifier: Apache-2.0
"""Defining properties of both nullspace projectors, also at singular configurations."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.joint_spring import NullspaceProjector
from multipanda_py.robots.dynamics.task_inertia import TaskInertia
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

KINDS = ["kinematic", "dynamic"]
MINIMUM = 0.01  # smallest singular value of J above which the projectors are exact


def smallest_singular_value(state):
    return np.linalg.svd(state.jacobian)[1][-1]


def exact(kind, state):
    """Return the projector by an SVD, without an inverse of J J' or J inv(M) J'."""
    root = np.linalg.cholesky(state.mass_matrix) if kind == "dynamic" else np.eye(7)
    null = np.linalg.svd(state.jacobian @ np.linalg.inv(root).T)[2][6:]
    return root @ null.T @ null @ np.linalg.inv(root)


def near_singular(rng, maker):
    """Return a random configuration with a smallest singular value of 0.01 to 0.05."""
    while True:
        (state,) = maker.random(rng)
        if MINIMUM < smallest_singular_value(state) < 0.05:
            return state


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("close", [False, True], ids=["anywhere", "near singular"])
def test_damped_projector_let_nullspace_torque_reach_tool(kind, close):
    rng, maker = np.random.default_rng(3), StateMaker()
    project = getattr(NullspaceProjector(7), kind)
    checked = 0
    while checked < 60:
        state = near_singular(rng, maker) if close else maker.random(rng)[0]
        if smallest_singular_value(state) < MINIMUM:
            continue
        checked += 1
        free = rng.normal(size=7)
        tau = project(state, free.copy())
        weight = np.linalg.inv(state.mass_matrix) if kind == "dynamic" else np.eye(7)
        assert np.abs(state.jacobian @ weight @ tau).max() < 1e-6
        assert np.allclose(tau, exact(kind, state) @ free, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_projection_is_bounded_and_continuous_at_singularity(kind):
    """Through the stretched elbow, the torque neither grows nor jumps."""
    maker = StateMaker()
    project = getattr(NullspaceProjector(7), kind)
    before, steps, minimum = None, [], 1.0
    for elbow in np.linspace(-0.1, 0.1, 4001):
        (state,) = maker.states_at([np.array([0.3, 0.0, 0.2, elbow, 0.1, 0.0, 0.4])])
        minimum = min(minimum, smallest_singular_value(state))
        tau = project(state, np.linspace(-5.0, 5.0, 7))
        assert np.isfinite(tau).all()
        assert np.abs(tau).max() < 15.0
        if before is not None:
            steps.append(np.abs(tau - before).max())
        before = tau.copy()
    assert minimum < 1e-9
    assert max(steps) < 0.03  # for steps of 5e-5 rad; half of it for half the step


@pytest.mark.parametrize("kind", KINDS)
def test_projection_is_continuous_near_small_singular_values(kind):
    rng, maker = np.random.default_rng(5), StateMaker()
    project = getattr(NullspaceProjector(7), kind)
    middle, half = (FR3_LIMITS.upper + FR3_LIMITS.lower) / 2, 3000
    passed = 0
    while passed < 4:
        q = rng.uniform(FR3_LIMITS.lower, FR3_LIMITS.upper)
        q[rng.choice([1, 3, 5])] *= 0.02  # near aligned axes of shoulder, elbow or wrist
        if smallest_singular_value(maker.states_at([q])[0]) > 5e-3:
            continue
        passed += 1
        direction = (middle - q) * 0.1 + rng.normal(size=7) * 0.05
        taus = []
        for fraction in np.linspace(-1.0, 1.0, half):
            (state,) = maker.states_at([q + fraction * direction])
            taus.append(project(state, np.linspace(5.0, -5.0, 7)).copy())
        assert np.abs(np.diff(taus, axis=0)).max() < 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_six_joints_leave_no_nullspace(kind):
    rng, maker = np.random.default_rng(7), StateMaker()
    (state,) = maker.random(rng)
    while np.linalg.svd(state.jacobian[:, :6])[1][-1] < 2 * MINIMUM:
        (state,) = maker.random(rng)

    class SixJoints:
        jacobian, mass = state.jacobian[:, :6].copy(), state.mass_matrix[:6, :6].copy()

        def operational_space(self):
            space = TaskInertia(6)
            space.update(self.mass, self.jacobian)
            return space

    tau = getattr(NullspaceProjector(6), kind)(SixJoints(), rng.normal(size=6))
    assert np.abs(tau).max() < 1e-9
