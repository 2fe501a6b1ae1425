# SPDX-License-Identifier: Apache-2.0
"""A switch that may force brings arms to rest before they are commanded something else."""

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
    """The left arm moves at velocities, the right one by torques."""
    cell = make_cell(ARMS, LAWS, ["left/rate", "right/torques"])
    cell.set_target("left", dq=RATES)
    cell.step(400)
    assert np.abs(cell.state("left").dq).max() > 0.7
    return cell


def force(cell, *names, timeout=10.0):
    return cell.switch(names, strictness="force_auto", timeout=timeout)


def commanded(cell):
    """Return what the left arm was commanded so far, (cycles, 3, n)."""
    return cell.records()[1]["arms"]["joint_command"][:, 0]


def test_a_moving_arm_is_braked_within_its_limits_and_then_changes(cell):
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


def test_at_rest_nobody_is_said_to_have_been_stopped(cell):
    cell.hold()
    cell.step(500)
    answer = force(cell, "left/torques")
    assert answer.rested == ()
    assert "rest" not in answer.message


def test_an_arm_that_goes_on_moving_is_not_waited_for_longer_than_asked(cell):
    pending = cell.request_switch(["left/torques"], strictness="force_auto", timeout=0.5)
    assert pending.poll() is None
    cell.step(1)
    while time.monotonic() < pending.deadline:  # the loop stands still: the arm moves on
        pass
    place = r"^left/torques: .*0\.\d+ rad/s .joint \d.*\b0\.01 rad/s .* 0\.5 s .*\bleft/rate\b"
    with pytest.raises(SwitchRejected, match=place):
        pending.poll()
    assert cell.state("left").owner == "left/hold"
    cell.step(500)
    assert force(cell, "left/torques").rested == ()


def test_with_no_time_to_wait_nothing_is_stopped(cell):
    with pytest.raises(SwitchRejected, match=r"^left/torques: .*joint \d.*\b0\.02 rad/s"):
        force(cell, "left/torques", timeout=0.0)
    cell.step(1)
    assert cell.state("left").owner == "left/rate"


def test_a_stop_comes_before_what_waits_for_rest(cell):
    pending = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    assert pending.poll() is None
    cell.step(2)
    assert pending.poll() is None
    cell.hold()
    with pytest.raises(SwitchRejected, match=r"\bleft\b.*\bleft/rate\b"):
        pending.poll()
    cell.step(500)
    assert cell.active == ("left/hold", "right/hold")


@pytest.mark.parametrize("looks", [0, 3])
def test_a_switch_that_waited_behind_one_that_brakes_went_on_after_a_stop(cell, looks):
    first = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    second = cell.request_switch(["right/velocity"], strictness="force_auto", timeout=10.0)
    for _ in range(looks):
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


def test_a_stop_over_laws_that_were_ended_for_rest_was_said_to_have_changed_nothing(cell):
    pending = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    assert pending.poll() is None
    cell.step(1)
    cell.hold()
    with pytest.raises(SwitchRejected, match=r"\bleft\b.*\bleft/rate\b"):
        pending.poll()


def test_a_switch_that_was_done_before_a_stop_was_said_to_be_pending(cell):
    pending = cell.request_switch(["right/velocity"], ["right/torques"], timeout=10.0)
    assert pending.poll() is None
    cell.step(1)
    cell.hold()
    answer = pending.poll()
    assert answer is not None
    assert (answer.activated, answer.deactivated) == (("right/velocity",), ("right/torques",))


def test_another_switch_waits_for_its_turn_meanwhile(cell):
    first = cell.request_switch(["left/torques"], strictness="force_auto", timeout=10.0)
    second = cell.request_switch(["right/velocity"], strictness="force_auto", timeout=10.0)
    assert first.poll() is None
    done = []
    for _ in range(500):
        done += [name for name, one in (("first", first), ("second", second))
                 if name not in done and one.poll() is not None]  # fmt: skip
        cell.step(1)
    assert done == ["first", "second"]


def test_nothing_is_stopped_for_an_arm_with_a_fault(make_cell):
    laws = {**LAWS, "odd": {"type": "misbehaving"}}
    cell = make_cell(ARMS, laws, ["left/rate", "right/odd"])
    cell.set_parameters("right/odd", {"fault": "nan"})
    cell.set_target("left", dq=RATES)
    cell.step(200)
    with pytest.raises(SwitchRejected, match=r"\bright\b.*\bfault\b"):
        force(cell, "both")
    assert cell.state("left").owner == "left/rate"


def test_the_other_arm_of_a_coupled_law_is_brought_to_rest_too(make_cell):
    cell = make_cell(ARMS, LAWS, ["left/rate", "right/velocity"])
    cell.set_target("right", dq=RATES)
    cell.step(300)
    assert np.abs(cell.state("left").dq).max() < 0.01
    answer = force(cell, "both")
    assert answer.rested == ("right",)
    assert set(answer.deactivated) == {"left/rate", "right/velocity"}
    assert cell.active == ("both",)
