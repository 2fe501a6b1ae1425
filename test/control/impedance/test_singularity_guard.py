# SPDX-License-Identifier: Apache-2.0
"""The hold near singular postures against numpy's eigenvalues, and what it takes and leaves."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.impedance.cartesian_spring import CartesianSpring
from multipanda_py.control.impedance.singularity import SingularityHold
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

LEVER, THRESHOLD, STIFFNESS = np.sqrt(0.05), 0.01, 16.0  # as the documentation says
SCALE = np.diag([1.0] * 3 + [LEVER] * 3)


def spring_of(*stiffness):
    spring = CartesianSpring()
    spring.set_shape(np.ones(6), np.ones(6), False)
    spring.set_stiffness(np.array(stiffness, dtype=float))
    return spring


def lost(state):
    """Mobilities (6,), and joint motions of unit kinetic energy in columns (n, 6)."""
    inverse = np.linalg.inv(state.mass)
    w, v = np.linalg.eigh(SCALE @ state.jacobian @ inverse @ state.jacobian.T @ SCALE)
    return w, inverse @ state.jacobian.T @ SCALE @ v / np.sqrt(np.maximum(w, 1e-12))


def wrist(maker, angle, dq=None):
    q = np.array([0.0, -1.5, 1.6, -1.7, angle, 0.0])
    (state,) = maker.at([q], None if dq is None else [dq])
    return state


def test_nothing_is_added_away_from_singular_postures():
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
def test_an_unknown_torque_moves_a_lost_motion_no_farther_than_its_spring(push):
    """A motion of unit mass, pushed where the law exerts nothing, ends at push / k."""
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


def test_what_commanded_torques_explain_is_not_resisted():
    maker = StateMaker(1, "ur5e")
    spring = spring_of(100, 100, 100, 10, 10, 10)
    guard = SingularityHold(maker.context.arms[0], PERIOD, spring.stiffness_along)
    motion = lost(wrist(maker, 0.02))[1][:, 0]
    momentum = wrist(maker, 0.02).mass @ motion
    speed = 0.0
    for cycle in range(1000):
        drive = np.cos(0.004 * cycle)
        state = wrist(maker, 0.02, speed * motion)
        tau = np.zeros(6)
        guard.add(state, tau)
        assert np.abs(tau).max() < 0.02 * np.abs(momentum).max()
        state.tau[:] = drive * momentum + state.coriolis + tau
        speed += PERIOD * (drive + motion @ tau)


def test_it_slips_at_a_share_of_the_torque_limits_and_only_takes_energy():
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
    most = 0.05 * arm.limits.torque @ np.abs(motion)
    assert -motion @ tau == pytest.approx(most + 2 * np.sqrt(STIFFNESS), rel=0.05)


@pytest.mark.parametrize("share", [0.02, -0.02, 0.2])
def test_it_goes_on_with_earlier_torques_up_to_its_bound(share):
    """Along the motion that it holds; the first cycle takes off what the law exerts itself."""
    maker = StateMaker(1, "ur5e")
    arm = maker.context.arms[0]
    spring = spring_of(400, 400, 400, 20, 20, 20)
    guard = SingularityHold(arm, PERIOD, spring.stiffness_along)
    state = wrist(maker, 0.02)
    motion = lost(state)[1][:, 0]
    before = share * arm.limits.torque * np.sign(motion)
    bound = 0.05 * arm.limits.torque @ np.abs(motion)
    wanted = float(motion @ before)
    held = guard.resume(state, before)
    assert motion @ held == pytest.approx(np.clip(wanted, -bound, bound), rel=1e-6)
    of_law = 0.1 * held
    tau = of_law.copy()
    guard.add(state, tau)
    added = motion @ (tau - of_law)
    assert added == pytest.approx(np.clip(wanted - motion @ of_law, -bound, bound), rel=1e-3)
    again = of_law.copy()
    state.tau[:] = state.coriolis + tau
    guard.add(state, again)
    assert again == pytest.approx(tau, rel=1e-3, abs=1e-6)
    guard.reset()
    later = np.zeros(6)
    guard.add(state, later)
    assert np.abs(later).max() < 1e-9


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-6, 1e-3])
def test_torques_stay_bounded_at_exactly_singular_postures(angle):
    maker = StateMaker(1, "ur5e")
    arm = maker.context.arms[0]
    spring = spring_of(400, 400, 400, 20, 20, 20)
    guard = SingularityHold(arm, PERIOD, spring.stiffness_along)
    for sign in (1, -1, 1, 1):
        tau = np.zeros(6)
        guard.add(wrist(maker, angle, np.full(6, 0.3 * sign)), tau)
        assert np.isfinite(tau).all()
        assert (np.abs(tau) < arm.limits.torque).all()


def test_where_the_spring_is_let_go_nothing_is_held():
    maker = StateMaker(1, "ur5e")
    spring = spring_of(*[0.0] * 6)
    guard = SingularityHold(maker.context.arms[0], PERIOD, spring.stiffness_along)
    for _ in range(10):
        tau = np.zeros(6)
        guard.add(wrist(maker, 0.02, np.ones(6)), tau)
    assert not tau.any()
