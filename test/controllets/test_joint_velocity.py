# SPDX-License-Identifier: Apache-2.0
"""Joint velocities: the controllet's equation, its bounds, and its effect on an arm."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY
from dense_impedance import impedance

from multipanda_py.controllets.joint_velocity import JointVelocity, JointVelocityParams
from multipanda_py.robots.franka import LIMITS
from multipanda_py.targets import JointTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

LIMIT = LIMITS["fr3"]
LAWS = {"jv": {"type": "joint_velocity"}}
EXPECTED = np.array([0.4, 0.2, -0.4, 0.3, 0.5, -0.5, 0.8])


def request(law, target, dq, arm=0):
    target.dq[arm][:] = dq
    law.on_target("joint", arm, target)


def test_torque_matches_dense_equation():
    rng = np.random.default_rng(1)
    maker = StateMaker(2)
    for _ in range(10):
        params = JointVelocityParams(
            rng.uniform(0, 800, 7),
            rng.uniform(0.1, 2, 7),
            acceleration_scaling=0.2,
            max_reference_lead=0.5,
        )
        law, target = JointVelocity(maker.context, params), JointTarget(2)
        q = [s.q.copy() for s in maker.random(rng, margin=0.3)]
        law.on_activate(maker.states_at(q), target)
        desired = rng.uniform(-1, 1, (2, 7))
        for arm in range(2):
            request(law, target, desired[arm], arm)
        reference, rate = np.array(q), np.zeros((2, 7))
        for _ in range(50):
            states = maker.states_at(list(np.array(q) + rng.uniform(-0.01, 0.01, (2, 7))),
                              list(rng.uniform(-0.5, 0.5, (2, 7))))  # fmt: skip
            law.update(states, target, PERIOD)
            step = 0.2 * LIMIT.acceleration * PERIOD
            rate = rate + np.clip(desired - rate, -step, step)
            reference = reference + rate * PERIOD
        for arm, s in enumerate(states):
            k, d = impedance(
                s.mass_matrix, np.diag(params.stiffness), np.diag(params.damping_ratio)
            )
            expected = k @ (reference[arm] - s.q) + d @ (rate[arm] - s.dq)
            assert np.allclose(law.tau[arm], expected, rtol=1e-9, atol=1e-8)


def follow(law, target, state, cycles, desired=None):
    """Let a perfect arm follow the reference; return its positions and velocities."""
    path = []
    for _ in range(cycles):
        if desired is not None:
            request(law, target, desired())
        law.update([state], target, PERIOD)
        reference = law.references[0]
        path.append((reference.q.copy(), reference.dq.copy()))
        state.q[:], state.dq[:] = path[-1]
    return np.array(path).transpose(1, 0, 2)


def started(q=READY, **params):
    maker = StateMaker()
    (state,) = maker.states_at([q])
    law, target = JointVelocity(maker.context, JointVelocityParams(**params)), JointTarget(1)
    law.on_activate([state], target)
    return law, target, state


@pytest.mark.parametrize("acceleration", [0.05, 0.3, 1.0])
def test_reference_keeps_limits_for_any_request(acceleration):
    rng = np.random.default_rng(2)
    law, target, state = started(
        acceleration_scaling=acceleration, velocity_scaling=0.6, margin=0.03
    )
    for _ in range(12):
        desired = rng.choice([-1.0, 1.0], 7) * LIMIT.velocity
        q, dq = follow(law, target, state, 1500, lambda w=desired: w)
        assert (q >= LIMIT.lower + 0.03 - 1e-9).all()
        assert (q <= LIMIT.upper - 0.03 + 1e-9).all()
        assert (np.abs(dq) <= 0.6 * LIMIT.velocity + 1e-9).all()
        change = np.abs(np.diff(dq, axis=0)) / PERIOD
        assert (change <= acceleration * LIMIT.acceleration * (1 + 1e-6)).all()


def test_reference_slows_down_before_limit_and_reaches_it():
    law, target, state = started()
    _, dq = follow(law, target, state, 8000, lambda: LIMIT.velocity)
    upper = LIMIT.upper - JointVelocityParams().margin
    assert np.allclose(state.q, upper, atol=2e-3)
    assert np.abs(dq[-1]).max() < 1e-2
    q, _ = follow(law, target, state, 300, lambda: -np.ones(7))
    assert (q[-1] < upper - 0.05).all()


def test_stale_velocity_ramps_to_zero():
    law, target, state = started(timeout=0.05)
    request(law, target, EXPECTED)
    _, dq = follow(law, target, state, 400)
    assert np.abs(dq[48]).max() > 0.1
    assert np.abs(dq[-1]).max() == 0.0
    assert np.abs(np.diff(dq, axis=0)).max() <= 0.3 * 10.0 * PERIOD + 1e-12
    assert law.report[1] == pytest.approx(0.4)


def test_reference_does_not_wind_up_against_blocked_arm():
    law, target, state = started(max_reference_lead=0.02)
    for _ in range(3000):
        request(law, target, EXPECTED)
        law.update([state], target, PERIOD)
    assert law.report[0] == pytest.approx(0.02)
    k = JointVelocityParams().stiffness
    spring = law.references[0].q - state.q
    assert np.allclose(np.abs(spring), 0.02)
    law.params = JointVelocityParams(damping_ratio=np.zeros(7), max_reference_lead=0.02)
    law.on_parameters()
    law.update([state], target, PERIOD)
    assert np.allclose(np.abs(law.tau[0]), k * 0.02)


@pytest.mark.sim
def test_arm_tracks_velocity_and_stops(make_cell):
    cell = make_cell({"left": {}}, LAWS, active=["left/jv"])
    start, _ = cell.records()
    for _ in range(40):
        cell.set_target("left", dq=EXPECTED)
        cell.step(20)
    assert np.abs(cell.state("left").dq - EXPECTED).max() < 1e-2
    cell.step(500)
    _, rows = cell.records(start)
    assert np.abs(cell.state("left").dq).max() < 1e-2
    rates = rows["arms"]["dq"][:, 0]
    assert np.abs(np.diff(rates, axis=0)).max() / PERIOD < 1.3 * 0.3 * LIMIT.acceleration.max()
    assert cell.events() == []


@pytest.mark.slow
@pytest.mark.sim
def test_arm_driven_to_its_limits_does_not_fault(make_cell):
    cell = make_cell({"left": {}}, LAWS, active=["left/jv"])
    free = np.array([1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0])  # joints with a free path
    for sign in (1.0, -1.0):
        for _ in range(150):
            cell.set_target("left", dq=sign * 0.6 * free * LIMIT.velocity)
            cell.step(40)
        end = LIMIT.upper - 0.05 if sign > 0 else LIMIT.lower + 0.05
        assert np.abs(free * (cell.state("left").q - end)).max() < 5e-3
    assert cell.events() == []


@pytest.mark.sim
def test_takeover_of_moving_arm_brakes_without_jerk(make_cell):
    cell = make_cell({"left": {}}, LAWS, active=["left/jv"])
    for _ in range(25):
        cell.set_target("left", dq=EXPECTED)
        cell.step(20)
    start, _ = cell.records()
    cell.switch(["left/jv"], ["left/jv"])
    cell.step(400)
    _, rows = cell.records(start - 1)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() < 0.5
    assert np.abs(cell.state("left").dq).max() < 1e-2
