# SPDX-License-Identifier: Apache-2.0
"""Checks of every cycle: batch checks agree with those of each arm; silent owners."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.cycle_checks import START_TIMEOUT, BatchSafety, Watchdog
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import SharedFlag
from multipanda_py.robots.franka import LIMITS
from multipanda_py.state import ArmState
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


MODELS = ("fr3", "fer", "fr3")
PERIOD = 1e-3


class FixedTorque:
    """Owner with fixed torques."""

    def __init__(self):
        self.tau = [np.zeros(7)]


def arms_of():
    """Return three arms of two models in one row, one with a lower torque rate."""
    row = np.zeros(1, record_dtype(3, 0, 1))
    arms = []
    for i, model in enumerate(MODELS):
        record = row["arms"][0, i : i + 1].reshape(())
        limits = LIMITS[model].with_torque_rate(300.0 if i == 2 else None)
        state = ArmState(f"arm{i}", limits, record)
        arm = Arm(i, state, StateMaker(1, model).models[0], record, PERIOD)
        state.q[:] = 0.5 * (limits.lower + limits.upper)
        arm.owner = FixedTorque()
        arms.append(arm)
    return arms, BatchSafety(arms, row["arms"][0], PERIOD)


def test_batch_check_of_states_agrees_with_individual_checks():
    arms, together = arms_of()
    rng = np.random.default_rng(8)
    observed = set()
    for _ in range(600):
        for arm in arms:
            limits = arm.state.limits
            middle, half = 0.5 * (limits.upper + limits.lower), 0.5 * (limits.upper - limits.lower)
            arm.state.q[:] = middle + half * rng.uniform(-1, 1, 7) * rng.choice([0.9, 1.01])
            arm.state.dq[:] = limits.velocity * rng.uniform(-1, 1, 7) * rng.choice([1.0, 1.12])
        faults = {arm.check() for arm in arms} - {Event.NONE}
        assert together.check_states() == (not faults)
        observed |= faults or {Event.NONE}
    assert observed == {Event.NONE, Event.POSITION_LIMIT, Event.VELOCITY_LIMIT}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("what", ["q", "dq"])
@pytest.mark.parametrize("arm", range(3))
def test_batch_check_finds_non_finite_value_in_any_arm(arm, what, bad):
    arms, together = arms_of()
    assert together.check_states()
    getattr(arms[arm].state, what)[6] = bad
    assert not together.check_states()


@pytest.mark.parametrize("joint", range(7))
@pytest.mark.parametrize("side", [-1, 1])
def test_batch_check_has_limits_of_every_joint_and_arm(joint, side):
    arms, together = arms_of()
    for arm in arms:
        limits, state = arm.state.limits, arm.state
        before = state.q_dq.copy()
        end = (limits.upper if side > 0 else limits.lower)[joint] + side * 0.02
        for at, bound in ((joint, end), (7 + joint, side * 1.1 * limits.velocity[joint])):
            for beyond in (-1e-9, 1e-9):
                state.q_dq[at] = bound + side * beyond
                assert together.check_states() == (beyond < 0.0) == (arm.check() is Event.NONE)
            state.q_dq[:] = before


def test_batch_torque_bounds_agree_with_individual_bounds():
    rng, largest = np.random.default_rng(9), 0.0
    (singly, _), (together, guard) = arms_of(), arms_of()
    for cycle in range(500):
        if cycle == 100:
            singly[1].blend(30), together[1].blend(30)
        singly[0].released = together[0].released = 200 <= cycle < 250
        for one, other in zip(singly, together):
            if cycle % 120 == 0:
                one.owner.tau[0][:] = rng.uniform(-150, 150, 7)
                other.owner.tau[0][:] = one.owner.tau[0]
            one.command()
        guard.command()
        for one, other in zip(singly, together):
            assert np.array_equal(one.state.tau, other.state.tau)
            assert (np.abs(other.state.tau) <= other.state.limits.torque).all()
            largest = max(largest, np.abs(other.state.tau).max())
    assert largest == pytest.approx(87.0)  # the value was bounded, not only the rate


def test_only_the_arm_with_a_bad_state_is_faulted(make_cell):
    cell = make_cell(arms={f"arm{i}": {"position": [0.0, 0.7 * i, 0.0]} for i in range(3)})
    cell.step(20)
    loop = cell.loop
    backend = loop.backends[0]
    backend.data.qvel[backend.dofs[1].start + 4] = 9.0  # 1.5 times the limit
    cell.step(1)
    assert [bool(cell.state(f"arm{i}").fault) for i in range(3)] == [False, True, False]
    assert cell.state("arm1").fault == "velocity_limit"


SECOND = 1_000_000_000


@pytest.fixture
def rig():
    """Return a watchdog with a timeout of 0.5 s, its shared words, and the reasons for hold."""
    shared_words, held = [0] * len(SharedFlag) * 2, []
    owners = SimpleNamespace(active=[], hold_all=lambda event, text, now_ns: held.append(text))
    return (
        Watchdog(owners, SimpleNamespace(words=shared_words), SECOND // 2),
        shared_words,
        held,
    )


def test_heartbeat_before_loop_start_was_stale_in_first_cycle(rig):
    timeout, shared_words, held = rig
    shared_words[SharedFlag.CLIENT_HEARTBEAT] = 10 * SECOND
    timeout.check(13 * SECOND)
    assert held == []
    timeout.check(13 * SECOND + 6 * SECOND // 10)
    assert len(held) == 1


def test_owner_without_heartbeat_has_limited_start_time(rig):
    timeout, _, held = rig
    timeout.check(10 * SECOND)
    timeout.check(int((9.9 + START_TIMEOUT) * SECOND))
    assert held == []
    timeout.check(int((10.1 + START_TIMEOUT) * SECOND))
    assert len(held) == 1
