# SPDX-License-Identifier: Apache-2.0
"""Damping and holding torques near singular configurations."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import stretched

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.singularity import (
    SingularityDamping,
    SingularityHold,
    curvature,
)
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

MIN_MANIPULABILITY = 0.02  # [1/kg], as documented


def test_curvature_agrees_with_finite_differences_of_jacobian():
    rng, maker, h = np.random.default_rng(0), StateMaker(), 1e-5
    for _ in range(20):
        q = maker.random(rng)[0].q.copy()
        u, wrench = rng.normal(size=7), rng.normal(size=6)
        ahead, behind = (maker.states_at([q + s * h * u])[0].jacobian.copy() for s in (1, -1))
        expected = wrench @ (ahead - behind) / (2 * h) @ u
        assert curvature(maker.states_at([q])[0], u, wrench) == pytest.approx(expected, abs=1e-6)


def test_lost_direction_alone_is_damped_critically():
    rng, maker = np.random.default_rng(1), StateMaker()
    braked = free = 0
    for _ in range(60):
        dq, wrench = 0.5 * rng.normal(size=7), rng.normal(size=6) * 10.0
        state = stretched(maker, rng.uniform(-0.6, -0.2), dq)
        j, minv = state.jacobian, np.linalg.inv(state.mass_matrix)
        w, v = np.linalg.eigh(j @ minv @ j.T)
        assert w[1] > MIN_MANIPULABILITY > w[0]
        stiffness = -curvature(state, minv @ j.T @ v[:, 0] / np.sqrt(w[0]), wrench)
        own = rng.uniform(0.0, 30.0) / w[0]
        found = SingularityDamping().damp(state, wrench, lambda v, own=own: own * v @ v)
        if stiffness <= 0.0:
            free += 1
            assert found is None
            continue
        braked += 1
        # critical for a mode with damping d, spring d^2 / 4 and the stiffness of the wrench
        d = own * w[0]
        rate = (1 - w[0] / MIN_MANIPULABILITY) * (2 * np.sqrt(d**2 / 4 + stiffness) - d)
        speed = v.T @ j @ dq
        expected = np.array([-rate * speed[0], 0, 0, 0, 0, 0])
        assert np.allclose(v.T @ j @ minv @ j.T @ found, expected, atol=1e-8)
        assert found @ j @ dq <= 0.0
    assert braked > 10
    assert free > 10


def test_no_damping_away_from_singularities():
    state = stretched(StateMaker(), -2.0, np.ones(7))
    assert SingularityDamping().damp(state, np.full(6, 50.0), lambda v: 0.0) is None


@pytest.mark.parametrize("in_tool", [False, True])
def test_damping_along_twist_equals_dissipated_power(in_tool):
    rng, maker = np.random.default_rng(2), StateMaker()
    spring = CartesianSpring()
    spring.set_shape(np.ones(6), np.ones(6), in_tool)
    spring.set_stiffness(np.array([900.0, 400.0, 100.0, 30.0, 20.0, 10.0]))
    for _ in range(20):
        state = maker.random(rng, speed=0.5)[0]
        there = state.position_ee_in_base.copy(), state.rotation_ee_in_base.copy()
        spring.measure(state, *there)
        power = -spring.wrench() @ state.twist_ee_in_base
        assert spring.damping_along(state.twist_ee_in_base) == pytest.approx(power, rel=1e-9)
        assert power > 0.0


LEVER, THRESHOLD, STIFFNESS = np.sqrt(0.05), 0.01, 16.0  # as documented
SCALE = np.diag([1.0] * 3 + [LEVER] * 3)


def spring_of(*stiffness):
    spring = CartesianSpring()
    spring.set_shape(np.ones(6), np.ones(6), False)
    spring.set_stiffness(np.array(stiffness, dtype=float))
    return spring


def lost(state):
    """Return mobilities (6,), and joint motions of unit kinetic energy in columns (n, 6)."""
    inverse = np.linalg.inv(state.mass_matrix)
    w, v = np.linalg.eigh(SCALE @ state.jacobian @ inverse @ state.jacobian.T @ SCALE)
    return w, inverse @ state.jacobian.T @ SCALE @ v / np.sqrt(np.maximum(w, 1e-12))


def wrist(maker, angle, dq=None):
    q = np.array([0.0, -1.5, 1.6, -1.7, angle, 0.0])
    (state,) = maker.states_at([q], None if dq is None else [dq])
    return state


def test_no_torque_is_added_away_from_singularities():
    maker, rng, far = StateMaker(), np.random.default_rng(0), 0
    spring = spring_of(*[400.0] * 6)
    guard = SingularityHold(maker.context.arms[0], PERIOD, spring.stiffness_along)
    while far < 20:
        (state,) = maker.random(rng, speed=1.0)
        if lost(state)[0][0] < THRESHOLD:
            continue
        far += 1
        tau = rng.normal(size=7)
        before = tau.copy()
        guard.add(state, tau)
        assert np.array_equal(tau, before)


@pytest.mark.parametrize("push", [0.3, -0.3])
def test_unknown_torque_displaces_lost_motion_like_spring(push):
    """A motion of unit mass without controllet torque ends at push / k."""
    maker = StateMaker(1, "ur5e")
    spring = spring_of(100, 100, 100, 10, 10, 10)
    guard = SingularityHold(maker.context.arms[0], PERIOD, spring.stiffness_along)
    state = wrist(maker, 0.02)
    w, motions = lost(state)
    motion = motions[:, 0]
    assert w[0] < THRESHOLD / 2 < w[1]
    stiffness = STIFFNESS - (state.jacobian @ motion) @ np.diag(
        [100.0] * 3 + [10.0] * 3) @ (state.jacobian @ motion)  # fmt: skip
    path = speed = 0.0
    fastest = 0.0
    for _ in range(4000):
        tau = np.zeros(6)
        state = wrist(maker, 0.02, speed * motion)
        guard.add(state, tau)
        state.tau[:] = state.coriolis + tau  # as commanded
        speed += PERIOD * (push + motion @ tau)
        path += PERIOD * speed
        fastest = max(fastest, abs(speed))
    assert path == pytest.approx(push / stiffness, rel=0.02)
    assert fastest < abs(push) / np.sqrt(stiffness)
    assert abs(speed) < 1e-3


def test_motion_explained_by_commanded_torques_is_not_resisted():
    maker = StateMaker(1, "ur5e")
    spring = spring_of(100, 100, 100, 10, 10, 10)
    guard = SingularityHold(maker.context.arms[0], PERIOD, spring.stiffness_along)
    motion = lost(wrist(maker, 0.02))[1][:, 0]
    momentum = wrist(maker, 0.02).mass_matrix @ motion
    speed = 0.0
    for cycle in range(1000):
        drive = np.cos(0.004 * cycle)
        state = wrist(maker, 0.02, speed * motion)
        tau = np.zeros(6)
        guard.add(state, tau)
        assert np.abs(tau).max() < 0.02 * np.abs(momentum).max()
        state.tau[:] = drive * momentum + state.coriolis + tau
        speed += PERIOD * (drive + motion @ tau)


def test_hold_slips_at_fraction_of_torque_limits_and_is_passive():
    maker, rng = StateMaker(1, "ur5e"), np.random.default_rng(3)
    arm = maker.context.arms[0]
    spring = spring_of(400, 400, 400, 20, 20, 20)
    guard = SingularityHold(arm, PERIOD, spring.stiffness_along)
    work, angle = 0.0, 0.03
    for _ in range(3000):
        dq = rng.normal(size=6)
        state = wrist(maker, angle, dq)
        state.tau[:] = rng.normal(size=6)
        tau = np.zeros(6)
        guard.add(state, tau)
        work += PERIOD * float(tau @ dq)
        assert work < 1e-3
    motion = lost(state)[1][:, 0]
    for _ in range(3000):
        tau = np.zeros(6)
        guard.add(wrist(maker, angle, motion), tau)
        state.tau[:] = state.coriolis + tau
    largest = 0.05 * arm.limits.torque @ np.abs(motion)
    assert -motion @ tau == pytest.approx(largest + 2 * np.sqrt(STIFFNESS), rel=0.05)


@pytest.mark.parametrize("fraction", [0.02, -0.02, 0.2])
def test_hold_resumes_previous_torques_within_its_bound(fraction):
    """Along the held motion; the first cycle subtracts the controllet's own torque."""
    maker = StateMaker(1, "ur5e")
    arm = maker.context.arms[0]
    spring = spring_of(400, 400, 400, 20, 20, 20)
    guard = SingularityHold(arm, PERIOD, spring.stiffness_along)
    state = wrist(maker, 0.02)
    motion = lost(state)[1][:, 0]
    before = fraction * arm.limits.torque * np.sign(motion)
    bound = 0.05 * arm.limits.torque @ np.abs(motion)
    desired = float(motion @ before)
    held = guard.resume(state, before)
    assert motion @ held == pytest.approx(np.clip(desired, -bound, bound), rel=1e-6)
    of_law = 0.1 * held
    tau = of_law.copy()
    guard.add(state, tau)
    added = motion @ (tau - of_law)
    assert added == pytest.approx(np.clip(desired - motion @ of_law, -bound, bound), rel=1e-3)
    again = of_law.copy()
    state.tau[:] = state.coriolis + tau
    guard.add(state, again)
    assert again == pytest.approx(tau, rel=1e-3, abs=1e-6)
    guard.reset()
    later = np.zeros(6)
    guard.add(state, later)
    assert np.abs(later).max() < 1e-9


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-6, 1e-3])
def test_torques_are_bounded_at_singularities(angle):
    maker = StateMaker(1, "ur5e")
    arm = maker.context.arms[0]
    spring = spring_of(400, 400, 400, 20, 20, 20)
    guard = SingularityHold(arm, PERIOD, spring.stiffness_along)
    for sign in (1, -1, 1, 1):
        tau = np.zeros(6)
        guard.add(wrist(maker, angle, np.full(6, 0.3 * sign)), tau)
        assert np.isfinite(tau).all()
        assert (np.abs(tau) < arm.limits.torque).all()


def test_zero_stiffness_disables_hold():
    maker = StateMaker(1, "ur5e")
    spring = spring_of(*[0.0] * 6)
    guard = SingularityHold(maker.context.arms[0], PERIOD, spring.stiffness_along)
    for _ in range(10):
        tau = np.zeros(6)
        guard.add(wrist(maker, 0.02, np.ones(6)), tau)
    assert not tau.any()
