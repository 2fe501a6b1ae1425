# SPDX-License-Identifier: Apache-2.0
"""The joint barrier against its potential and its bounds, and on a pushed joint."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import registry, testing
from multipanda_py.control.delay_margin import linearise
from multipanda_py.controllets.features import joint_limits
from multipanda_py.controllets.features.joint_limits import (
    BRAKING_SPEED_FRACTION,
    MAX_BARRIER_DAMPING_RATE,
    JointLimits,
    JointLimitsParams,
)
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.targets import JointTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

CONTEXT = StateMaker().context
LOWER, UPPER = FR3_LIMITS.lower, FR3_LIMITS.upper
MIDDLE = (LOWER + UPPER) / 2


def added(params, state):
    feature, tau = JointLimits(CONTEXT, params), [np.zeros(7)]
    feature.add([state], JointTarget(1), tau, PERIOD)
    return tau[0]


def potential(q, params):
    """Cubic in the range, linear beyond the limit."""
    total = 0.0
    for i in range(7):
        r, force = params.range[i], params.max_torque[i]
        for depth in (q[i] - UPPER[i] + r, LOWER[i] + r - q[i]):
            s = max(depth, 0.0) / r
            total += force * r * (s**3 / 3 if s <= 1 else 1 / 3 + s - 1)
    return total


def test_torque_at_rest_is_negative_gradient_of_potential():
    rng, maker, h, active = np.random.default_rng(1), StateMaker(), 1e-6, 0
    for _ in range(60):
        # At most half of the default stiffness, so that no two joints together are too stiff.
        reach = rng.uniform(0.1, 0.5, 7)
        softer = rng.uniform(0.02, 0.5, 7) * JointLimitsParams().max_torque / 0.1
        params = JointLimitsParams(reach, softer * reach)
        side = rng.choice([-1, 1], 7)
        depth = rng.uniform(-0.3, 1.3, 7) * params.range
        q = np.where(side > 0, UPPER - params.range + depth, LOWER + params.range - depth)
        tau = added(params, maker.states_at([q])[0])
        gradient = np.array([
            (potential(q + h * e, params) - potential(q - h * e, params)) / (2 * h)
            for e in np.eye(7)
        ])  # fmt: skip
        assert np.abs(tau + gradient).max() <= 1e-6 * np.abs(tau).max()
        active += np.count_nonzero(tau)
        assert (tau * side <= 0).all()
    assert active > 200


def test_no_torque_away_from_limits():
    rng, maker, params = np.random.default_rng(2), StateMaker(), JointLimitsParams()
    for _ in range(20):
        q = rng.uniform(LOWER + params.range, UPPER - params.range)
        speed = BRAKING_SPEED_FRACTION * FR3_LIMITS.velocity
        (state,) = maker.states_at([q], [rng.uniform(-speed, speed)])
        assert not added(params, state).any()


def test_damping_is_dissipative_and_critical_for_local_stiffness():
    params, joint, s = JointLimitsParams(), 1, 0.5
    q = MIDDLE.copy()
    q[joint] = UPPER[joint] - params.range[joint] * (1 - s)
    for speed in (-0.05, 0.05):
        (state,) = StateMaker().states_at([q], [np.eye(7)[joint] * speed])
        rest = -params.max_torque[joint] * s**2
        stiffness = 2 * params.max_torque[joint] * s / params.range[joint]
        # the other joints may yield
        mass = 1.0 / np.linalg.inv(state.mass_matrix)[joint, joint]
        damping = min(2 * np.sqrt(stiffness * mass), MAX_BARRIER_DAMPING_RATE * mass)
        assert added(params, state)[joint] == pytest.approx(rest - damping * speed, rel=1e-9)


def test_torque_is_bounded_at_any_speed():
    rng, maker, params = np.random.default_rng(3), StateMaker(), JointLimitsParams()
    for _ in range(50):
        q = rng.uniform(LOWER - 0.2, UPPER + 0.2)
        (state,) = maker.states_at([q], [rng.normal(size=7) * 1e3])
        maximum = 2 * params.max_torque + FR3_LIMITS.torque
        assert (np.abs(added(params, state)) <= maximum + 1e-9).all()


@pytest.mark.slow
def test_torque_is_continuous_in_position_and_velocity():
    maker, params = StateMaker(), JointLimitsParams()
    for dq in (np.zeros(7), np.full(7, 0.5), np.full(7, -0.5)):
        positions = UPPER - 0.2 + np.linspace(-0.05, 0.25, 4501)[:, None]
        taus = [added(params, maker.states_at([q], [dq])[0]).copy() for q in positions]
        assert np.abs(np.diff(taus, axis=0)).max() < 0.1


def test_pushed_joint_stays_off_its_stop(make_cell):
    """A spring of 10 Nm/rad near the stop, and 5 Nm that push the joint past it."""

    def closest(features):
        laws = {"joint": {"type": "joint_impedance", "arms": ["left"], "features": features,
                          "params": {"stiffness": [10.0] * 7}}}  # fmt: skip
        q = np.array([0.0, -0.8, 0.0, -2.4, 0.0, 1.6, 2.7])
        cell = make_cell(arms={"left": {"q_start": q.tolist()}}, controllets=laws,
                         active=["joint"])  # fmt: skip
        sim = cell.simulation
        dof = int(sim.model.joint("left_fr3_joint7").dofadr[0])
        sim.data.qfrc_applied[dof] = 5.0
        furthest = -np.inf
        for _ in range(200):
            cell.step(10)
            furthest = max(furthest, cell.state("left").q[6])
        assert cell.events() == []
        return UPPER[6] - furthest

    assert closest(["coriolis"]) < 0
    assert closest(["coriolis", "joint_limits"]) > 0.02


WITH_LIMITS = [
    name for name in registry.names("controllets")
    if "joint_limits" in registry.find("controllets", name).default_features
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.robustness
@pytest.mark.parametrize("name", WITH_LIMITS)
def test_joints_at_barriers_oscillated_on_late_arm(monkeypatch, episodes, name):
    """Controllet and barriers together damped at up to 258 1/s, by the diagonal of the inertia."""
    monkeypatch.setattr(
        joint_limits, "MAX_EXIT_SPEED", 1e4
    )  # whole barriers after the first cycle
    law = registry.find("controllets", name)
    kept = tuple(f for f in law.default_features if f != "collision_avoidance")
    monkeypatch.setattr(law, "default_features", kept)
    maker, rng = StateMaker(law.min_arms), np.random.default_rng(0)
    probe = testing.probe_of(law, maker, dict(testing.corners(law)[0][1]))
    for _ in range(episodes(12, 300)):
        q = np.array([state.q for state in maker.random(rng, margin=0.3)])
        for row in q:
            joints = rng.choice(7, rng.integers(1, 4), replace=False)
            into = rng.uniform(-0.09, 0.0, 7)
            row[joints] = np.where(rng.random(7) < 0.5, UPPER + into, LOWER - into)[joints]
        found = linearise(probe, q.ravel())
        assert found.bandwidth < testing.MAX_BANDWIDTH, q.tolist()
        assert found.radius(5, 0.002, 0.8) < 1.0 + 2e-3, q.tolist()


@pytest.mark.robustness
@pytest.mark.parametrize("name", ["cartesian_impedance", "gravity_compensation"])
def test_joints_held_at_barrier_onset_are_stable_on_late_arm(monkeypatch, episodes, name):
    """With a constant offset, and the stiffness towards the limit."""
    monkeypatch.setattr(joint_limits, "MAX_EXIT_SPEED", 0.0)
    law = registry.find("controllets", name)
    kept = tuple(f for f in law.default_features if f != "collision_avoidance")
    monkeypatch.setattr(law, "default_features", kept)
    maker, rng = StateMaker(law.min_arms), np.random.default_rng(0)
    probe = testing.probe_of(law, maker, dict(testing.corners(law)[0][1]))
    for _ in range(episodes(6, 200)):
        q = maker.random(rng, margin=0.3)[0].q.copy()
        joints = rng.choice(7, rng.integers(1, 4), replace=False)
        into = rng.uniform(-0.09, 0.0, 7)
        q[joints] = np.where(rng.random(7) < 0.5, UPPER + into, LOWER - into)[joints]
        found = linearise(probe, q)
        assert found.bandwidth < testing.MAX_BANDWIDTH, q.tolist()
        assert found.radius(5, 0.002, 0.8) < 1.0 + 2e-3, q.tolist()
