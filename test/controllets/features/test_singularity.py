# SPDX-License-Identifier: Apache-2.0
"""Damping near singularities, and the manipulability feature against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import stretched
from rail import railed_ur5e

from multipanda_py.controllets.features.singularity import (
    Manipulability,
    ManipulabilityParams,
    Singularity,
    SingularityParams,
)
from multipanda_py.targets import CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

CONTEXT = StateMaker().context
RATE, THRESHOLD = SingularityParams().rate, SingularityParams().threshold


def added(state, params=None):
    feature, tau = Singularity(CONTEXT, params or SingularityParams()), [np.zeros(7)]
    feature.add([state], CartesianTarget(1), tau, PERIOD)
    return tau[0]


def test_damping_rate_applies_only_to_lost_directions():
    rng, maker, checked = np.random.default_rng(1), StateMaker(), 0
    while checked < 30:
        state = stretched(maker, rng.uniform(-0.5, -0.1), rng.normal(size=7) * 0.5)
        j, minv = state.jacobian, np.linalg.inv(state.mass_matrix)
        w, v = np.linalg.eigh(j @ minv @ j.T)
        if w[0] > THRESHOLD or w[0] < 1e-5:
            continue
        checked += 1
        rho = RATE * np.maximum(1 - w / THRESHOLD, 0) ** 2
        acceleration = v.T @ j @ minv @ added(state)
        assert np.allclose(acceleration, -rho * (v.T @ j @ state.dq), rtol=1e-6, atol=1e-9)


def test_no_damping_without_lost_direction():
    rng, maker, checked = np.random.default_rng(2), StateMaker(), 0
    while checked < 20:
        (state,) = maker.random(rng, speed=1.0)
        w = np.linalg.eigvalsh(
            state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T
        )
        if w[0] > THRESHOLD:
            checked += 1
            assert not added(state).any()


def test_damping_is_continuous_bounded_and_dissipative_towards_singularity():
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
    assert steps < 0.2  # half of it at half the step size


def potential(jacobian, params):
    m = np.sqrt(max(np.linalg.det(jacobian @ jacobian.T), 0.0))
    return params.gain * (m - params.threshold) ** 2 if m <= params.threshold else 0.0


def potential_torque(params, state, context=CONTEXT):
    feature, tau = Manipulability(context, params), [np.zeros(7)]
    feature.add([state], CartesianTarget(1), tau, PERIOD)
    return tau[0]


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_hessian_is_derivative_of_jacobian(model):
    rng, maker, h = np.random.default_rng(1), StateMaker(1, model), 1e-6
    for _ in range(5):
        (state,) = maker.random(rng)
        q, hessian = state.q.copy(), state.hessian().copy()
        for k in range(7):
            step = np.eye(7)[k] * h
            ahead = maker.states_at([q + step])[0].jacobian.copy()
            behind = maker.states_at([q - step])[0].jacobian.copy()
            assert np.allclose(hessian[k].T, (ahead - behind) / (2 * h), atol=1e-8)


@pytest.mark.parametrize(
    ("robot", "threshold"),
    [(lambda: "fr3", 0.1), (lambda: "fr3", 1.2), (railed_ur5e, 1.2)],
    ids=["near", "everywhere", "prismatic_joint"],
)
def test_manipulability_torque_is_negative_gradient_of_potential(robot, threshold):
    rng, maker, h = np.random.default_rng(2), StateMaker(model=robot()), 1e-6
    params = ManipulabilityParams(threshold=threshold, in_nullspace=False)
    active = 0
    for _ in range(40):
        (state,) = maker.random(rng)
        q, tau = state.q.copy(), potential_torque(params, state, maker.context)
        m = np.sqrt(np.linalg.det(state.jacobian @ state.jacobian.T))
        if m < 1e-3 or abs(m - threshold) < 1e-4:
            continue
        gradient = np.zeros(7)
        for k in range(7):
            step = np.eye(7)[k] * h
            ahead = potential(maker.states_at([q + step])[0].jacobian, params)
            behind = potential(maker.states_at([q - step])[0].jacobian, params)
            gradient[k] = (ahead - behind) / (2 * h)
        active += m < threshold
        assert np.abs(tau + gradient).max() <= 1e-5 * max(np.abs(tau).max(), 1e-3)
    assert active > 10


def test_manipulability_torque_matches_hessian():
    """Pinocchio's derivative of the Jacobian, to a few bits of the largest joint's torque."""
    rng, maker = np.random.default_rng(5), StateMaker()
    params = ManipulabilityParams(threshold=1.2, in_nullspace=False)
    for _ in range(50):
        (state,) = maker.random(rng)
        jacobian = state.jacobian
        m = np.sqrt(np.linalg.det(jacobian @ jacobian.T))
        by_joint = np.einsum("kjr,rj->k", state.hessian(), np.linalg.pinv(jacobian).T)
        torque = -2.0 * params.gain * (m - params.threshold) * m * by_joint
        assert np.abs(potential_torque(params, state) - torque).max() < 1e-9 * np.abs(torque).max()


def test_no_manipulability_torque_above_threshold():
    (state,) = StateMaker().states_at([np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785])])
    m = np.sqrt(np.linalg.det(state.jacobian @ state.jacobian.T))
    assert not potential_torque(ManipulabilityParams(threshold=0.99 * m), state).any()
    assert potential_torque(
        ManipulabilityParams(threshold=1.01 * m, in_nullspace=False), state
    ).any()


def test_manipulability_in_nullspace_accelerates_no_task_coordinate():
    rng, maker, checked = np.random.default_rng(3), StateMaker(), 0
    while checked < 20:
        (state,) = maker.random(rng)
        j, minv = state.jacobian, np.linalg.inv(state.mass_matrix)
        inverse = j @ minv @ j.T
        if np.linalg.eigvalsh(inverse)[0] < 0.022:
            continue
        checked += 1
        free = potential_torque(ManipulabilityParams(threshold=1.2, in_nullspace=False), state)
        projected = potential_torque(ManipulabilityParams(threshold=1.2), state)
        assert np.abs(j @ minv @ projected).max() < 1e-8
        dense = np.eye(7) - j.T @ np.linalg.inv(inverse) @ j @ minv
        assert np.allclose(projected, dense @ free, atol=1e-8)


def test_stretched_arm_has_finite_manipulability_torque():
    maker = StateMaker()
    for q4 in np.linspace(-0.2, 0.0, 201):
        (state,) = maker.states_at([np.array([0.0, 0.0, 0.0, q4, 0.0, 0.0, 0.0])])
        assert np.isfinite(potential_torque(ManipulabilityParams(), state)).all()


def test_manipulability_increases_while_end_effector_rests(make_cell):
    laws = {"cart": {"type": "cartesian_impedance", "arms": ["left"],
                     "features": ["manipulability", "coriolis", "nullspace"],
                     "params": {"stiffness": [3000.0] * 3 + [300.0] * 3,
                                "nullspace": {"stiffness": [0.5] * 7},
                                "manipulability": {"gain": 100.0, "threshold": 0.2}}}}  # fmt: skip
    arms = {"left": {"q_start": [0.0, -0.4, 0.6, -1.8, 0.9, 1.2, 0.5]}}
    cell = make_cell(arms=arms, controllets=laws, active=["cart"])
    start, before = cell.pose("left"), manipulability_of(cell)
    cell.step(3000)
    assert manipulability_of(cell) > 1.05 * before
    assert cell.pose("left").distance(start)[0] < 1e-4


def manipulability_of(cell):
    (state,) = StateMaker().states_at([cell.state("left").q])
    return np.sqrt(np.linalg.det(state.jacobian @ state.jacobian.T))
