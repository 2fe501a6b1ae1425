# SPDX-License-Identifier: Apache-2.0
"""Switches with FORCE_AUTO stop arms before a change of the command interface."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest

from multipanda_py.exceptions import SwitchRejected

pytestmark = pytest.mark.inline

ARMS = {name: {"position": [0.0, y, 0.0], "gripper": False}
        for name, y in (("left", 1.0), ("right", -1.0))}  # fmt: skip
LAWS = {
    "rate": {"type": "joint_rate", "features": [""], "params": {"timeout": 10.0}},
    "torques": {"type": "joint_impedance"},
    "both": {"type": "joint_impedance", "arms": ["left", "right"]},
    "velocity": {"type": "joint_velocity", "params": {"timeout": 10.0}},
}
RATES = np.array([0.8, 0.0, 0.0, 0.0, 0.0, 0.5, -0.8])


@pytest.fixture
def cell(make_cell):
    """Return a cell with a left arm in velocity control and a right arm in torque control."""
    cell = make_cell(ARMS, LAWS, ["left/rate", "right/torques"])
    cell.set_target("left", dq=RATES)
    cell.step(400)
    assert np.abs(cell.state("left").dq).max() > 0.7
    return cell


def force(cell, *names, timeout=10.0):
    return cell.switch(names, strictness="force_auto", timeout=timeout)


def commanded(cell):
    """Return the commands of the left arm so far, (cycles, 3, n)."""
    return cell.records()[1]["arms"]["joint_command"][:, 0]


def test_moving_arm_is_braked_within_limits_before_switch(cell):
    other = cell.state("right").owner
    answer = force(cell, "left/torques")
    assert answer.activated == ("left/torques",)
    assert answer.deactivated == ("left/rate",)
    assert answer.rested == ("left",)
    assert re.search(r"\bleft\b.*\brest\b", answer.message)
    assert answer.delay > 0.0
    cell.step(1)
    left = cell.state("left")
    assert (left.interface, left.owner) == ("effort", "left/torques")
    assert np.abs(left.dq).max() < 0.02
    limits = cell.descriptions["left"].limits
    braking = commanded(cell)[-1000:-1]
    assert (np.abs(np.diff(braking[:, 1], axis=0)) <= 1e-3 * limits.acceleration * 1.001).all()
    assert cell.state("right").owner == other
    before = left.q
    cell.step(500)
    assert np.abs(cell.state("left").q - before).max() < 2e-3
    assert not [event for event in cell.events() if event.event.name == "SWITCH_FAILED"]


def test_resting_arm_is_not_reported_as_stopped(cell):
    cell.hold()
    cell.step(500)
    answer = force(cell, "left/torques")
    assert answer.rested == ()
    assert "rest" not in answer.message


def test_stop_before_switch_has_timeout(cell):
    pending = cell.request_switch(["left/torques"], strictness="force_auto", timeout=0.5)
    assert pending.poll() is None
    cell.step(1)
    # The loop runs no cycle, so that the arm does not brake.
    while time.monotonic() < pending.deadline:
        pass
    pattern = r"^left/torques: .*0\.\d+ rad/s .joint \d.*\b0\.01 rad/s .* 0\.5 s .*\bleft/rate\b"
    with pytest.raises(SwitchRejected, match=pattern):
        pending.poll()
    assert cell.state("left").owner == "left/hold"
    cell.step(500)
    assert force(cell, "left/torques").rested == ()


def test_zero_timeout_stops_no_arm(cell):
    with pytest.raises(SwitchRejected, match=r"^left/torques: .*joint \d.*\b0\.02 rad/s"):
        force(cell, "left/torques", timeout=0.0)
    cell.step(1)
    assert cell.state("left").owner == "left/rate"


def test_stop_cancels_switch_that_waits_for_rest(cell):
    pending = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    assert pending.poll() is None
    cell.step(2)
    assert pending.poll() is None
    cell.hold()
    with pytest.raises(SwitchRejected, match=r"\bleft\b.*\bleft/rate\b"):
        pending.poll()
    cell.step(500)
    assert cell.active == ("left/hold", "right/hold")


@pytest.mark.parametrize("polls", [0, 3])
def test_switch_queued_behind_braking_switch_continued_after_stop(cell, polls):
    first = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    second = cell.request_switch(["right/velocity"], strictness="force_auto", timeout=10.0)
    for _ in range(polls):
        assert first.poll() is None
        assert second.poll() is None
        cell.step(1)
    cell.hold()
    for pending in (second, first):
        with pytest.raises(SwitchRejected, match="a stop came first"):
            pending.poll()
    cell.step(500)
    assert cell.active == ("left/hold", "right/hold")
    cell.switch(["right/velocity"])


def test_stop_during_braking_reported_no_ended_controllets(cell):
    pending = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    assert pending.poll() is None
    cell.step(1)
    cell.hold()
    with pytest.raises(SwitchRejected, match=r"\bleft\b.*\bleft/rate\b"):
        pending.poll()


def test_switch_finished_before_stop_was_reported_as_pending(cell):
    pending = cell.request_switch(["right/velocity"], ["right/torques"], timeout=10.0)
    assert pending.poll() is None
    cell.step(1)
    cell.hold()
    answer = pending.poll()
    assert answer is not None
    assert (answer.activated, answer.deactivated) == (("right/velocity",), ("right/torques",))


def test_another_switch_waits_for_braking_switch(cell):
    first = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    second = cell.request_switch(["right/velocity"], strictness="force_auto", timeout=10.0)
    assert first.poll() is None
    done = []
    for _ in range(500):
        done += [name for name, one in (("first", first), ("second", second))
                 if name not in done and one.poll() is not None]  # fmt: skip
        cell.step(1)
    assert done == ["first", "second"]


def test_faulted_arm_prevents_stop_of_others(make_cell):
    laws = {**LAWS, "odd": {"type": "misbehaving"}}
    cell = make_cell(ARMS, laws, ["left/rate", "right/odd"])
    cell.set_parameters("right/odd", {"fault": "nan"})
    cell.set_target("left", dq=RATES)
    cell.step(200)
    with pytest.raises(SwitchRejected, match=r"\bright\b.*\bfault\b"):
        force(cell, "both")
    assert cell.state("left").owner == "left/rate"


def test_all_arms_of_coupled_controllet_are_stopped_first(make_cell):
    cell = make_cell(ARMS, LAWS, ["left/rate", "right/velocity"])
    cell.set_target("right", dq=RATES)
    cell.step(300)
    assert np.abs(cell.state("left").dq).max() < 0.01
    answer = force(cell, "both")
    assert answer.rested == ("right",)
    assert set(answer.deactivated) == {"left/rate", "right/velocity"}
    assert cell.active == ("both",)
