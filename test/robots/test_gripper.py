# SPDX-License-Identifier: Apache-2.0
"""Gripper handle: refusals and results of commands."""

from __future__ import annotations

import math
import os
import signal
import uuid

import pytest
from processes import wait_until

from multipanda_py.exceptions import ConfigurationError, LoopTimeout, TargetRejected, UnknownName
from multipanda_py.robots.gripper import MAX_WIDTH, Outcome

pytestmark = pytest.mark.inline


@pytest.fixture
def mock_cell(make_cell):
    return make_cell(
        arms={"arm": {"backend": "mock"}, "bare": {"backend": "mock", "gripper": False}}
    )


def test_only_arms_with_hand_have_gripper(mock_cell):
    gripper = mock_cell.gripper("arm")
    assert mock_cell.gripper("arm") is gripper
    with pytest.raises(ConfigurationError, match=r"\bbare\b.*arms\.bare\.gripper"):
        mock_cell.gripper("bare")
    with pytest.raises(UnknownName, match="known: arm, bare"):
        mock_cell.gripper("middle")


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("move", {"width": 0.09}, r"gripper of arm: width: got 0\.09, allowed \[0, 0\.08\] m"),
        ("move", {"width": -1e-6}, "width: got -1e-06"),
        ("move", {"width": math.nan}, "width: got nan"),
        ("move", {"width": "wide"}, "width: got 'wide'"),
        ("move", {"width": None}, "width: got None"),
        ("move", {"width": 0.04, "speed": 0.0}, r"speed: got 0\.0, allowed \(0, 0\.2\] m/s"),
        ("move", {"width": 0.04, "speed": math.inf}, "speed: got inf"),
        ("grasp", {"width": 0.1}, "width: got 0.1"),
        ("grasp", {"width": 0.04, "force": 0.0}, r"force: got 0\.0, allowed \(0, 140\] N"),
        ("grasp", {"width": 0.04, "force": 141.0}, "force: got 141"),
        ("grasp", {"width": 0.04, "speed": -0.1}, "speed: got -0.1"),
        ("grasp", {"width": 0.04, "epsilon_inner": -0.001}, r"epsilon_inner: got -0\.001"),
        ("grasp", {"width": 0.04, "epsilon_outer": 0.1}, r"epsilon_outer: .* \[0, 0\.08\] m"),
    ],
)
def test_invalid_command_is_refused_without_effect(mock_cell, method, arguments, message):
    gripper = mock_cell.gripper("arm")
    with pytest.raises(TargetRejected, match=message):
        getattr(gripper, method)(**arguments)
    mock_cell.step(5)
    assert gripper.state().width == MAX_WIDTH


def test_mock_gripper_completes_commands_in_one_cycle(mock_cell):
    gripper = mock_cell.gripper("arm")
    motion = gripper.move(0.03)
    assert not motion.done
    assert gripper.state().is_moving
    mock_cell.step()
    assert motion.result.succeeded
    assert gripper.state().width == pytest.approx(0.03)
    assert gripper.grasp(0.02).wait().succeeded
    assert gripper.state().is_grasped
    assert gripper.stop().wait().succeeded
    assert gripper.state().is_grasped
    assert gripper.homing().wait().width == pytest.approx(MAX_WIDTH)
    assert not gripper.state().is_grasped


def test_result_of_command_stays_unchanged(mock_cell):
    gripper = mock_cell.gripper("arm")
    first = gripper.move(0.03)
    mock_cell.step()
    second = gripper.move(0.05)
    mock_cell.step()
    assert first.result.outcome is Outcome.SUCCEEDED
    assert first.result.width == pytest.approx(0.03)
    assert second.result.width == pytest.approx(0.05)
    third, fourth = gripper.move(0.06), gripper.move(0.07)  # in one cycle
    mock_cell.step()
    assert third.result.outcome is Outcome.ABORTED
    assert "0.0700 m" in third.result.text
    assert fourth.result.succeeded


@pytest.mark.sim
def test_short_wait_times_out_and_motion_continues(make_cell):
    gripper = make_cell(arms={"arm": {}}).gripper("arm")
    motion = gripper.move(0.0, 0.05)
    with pytest.raises(LoopTimeout, match=r"move\b.*\b0\.0000 m.*\b0\.2 s"):
        motion.wait(0.2)
    assert motion.wait().succeeded


@pytest.mark.sim
def test_paced_loop_in_process_executes_commands(make_cell):
    cell = make_cell(arms={"arm": {}}, placement="process", name=f"test_{uuid.uuid4().hex[:12]}")
    gripper = cell.gripper("arm")
    motion = gripper.move(0.05, 0.2)
    assert motion.result is None
    assert motion.wait().succeeded
    assert gripper.state().width == pytest.approx(0.05, abs=1e-4)
    assert cell.state("arm").finger_positions.sum() == pytest.approx(0.05, abs=1e-4)


def test_stopped_loop_left_gripper_command_unanswered_and_stopped_later(make_cell):
    cell = make_cell(placement="process", name=f"stuck_{uuid.uuid4().hex[:10]}")
    left, right = cell.gripper("left"), cell.gripper("right")
    begun = left.move(0.0, 0.01)
    right.move(0.0, 0.01)
    cell.wait(lambda: max(left.state().width, right.state().width) < MAX_WIDTH - 1e-4, 5.0)
    os.kill(cell.loop_pid, signal.SIGSTOP)
    try:
        late, before = right.stop(), right.state().width
        wait_until(lambda: begun.done and late.done)
    finally:
        os.kill(cell.loop_pid, signal.SIGCONT)
    assert "loop" in late.result.text
    assert "withdrawn" in late.result.text
    assert "pending" in begun.result.text
    assert cell.cancelled["gripper"] == 1
    cell.wait(lambda: right.state().width < before - 1e-3, 5.0, "fingers that go on")
