# SPDX-License-Identifier: Apache-2.0
"""Grippers through the action and the services, as MoveIt and scripts use them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand
from goals import Goals
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

pytestmark = pytest.mark.node

ACTION = "/left/gripper/gripper_action"
FINGERS = ["left_fr3_finger_joint1", "left_fr3_finger_joint2"]


class Gripper(Goals):
    """A client of the action and of the services of a gripper."""

    def __init__(self, client, action=ACTION):
        super().__init__(client, GripperCommand, action)

    def send(self, position, max_effort=0.0):
        """Send a goal and return its handle."""
        goal = GripperCommand.Goal()
        goal.command.position, goal.command.max_effort = position, max_effort
        return super().send(goal)

    def trigger(self, name):
        return self._client.call(Trigger, f"/left/gripper/{name}")


@pytest.fixture(scope="module")
def gripper(shared_node, client):
    return Gripper(client)


@pytest.fixture
def opened(cell, gripper):
    """The open gripper."""
    answer = gripper.trigger("open")
    assert answer.success, answer.message
    return gripper


def widths(client):
    message = client.newest(JointState, "/joint_states")
    return [message.position[message.name.index(name)] for name in FINGERS]


def test_position_is_that_of_one_finger(opened, client):
    status, result = opened.run(0.015)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.reached_goal
    assert not result.stalled
    assert result.position == pytest.approx(0.015, abs=2e-4)
    assert widths(client) == pytest.approx([0.015, 0.015], abs=3e-4)
    observed = [feedback.position for feedback in opened.feedback]
    assert len(observed) > 2
    assert all(0.0149 < position <= 0.0401 for position in observed)
    assert max(np.diff(observed)) < 1e-5  # the width oscillates by micrometers at the end


def test_effort_commands_grasp_that_fails_without_object(opened):
    status, result = opened.run(0.02, 15.0)
    assert status == GoalStatus.STATUS_ABORTED
    assert not result.reached_goal
    assert result.stalled
    assert result.position == pytest.approx(0.0, abs=5e-4)
    status, result = opened.run(0.03, 15.0)  # an opening motion is no grasp
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.position == pytest.approx(0.03, abs=2e-4)


def test_closed_position_rounded_below_zero_was_rejected(opened):
    """Clients that scale a fraction of the range send such positions."""
    status, result = opened.run(-4.4e-7)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.position == pytest.approx(0.0, abs=2e-4)


@pytest.mark.parametrize(("goal", "text"), [
    ((0.05,), "position: got 0.05, allowed [0, 0.04] m"),
    ((-0.01,), "position: got"),  # logged before: only the number differs
    ((math.nan,), "position: got nan"),
    ((0.01, 1000.0), "max_effort: got 1000, allowed [0, 140] N"),
])  # fmt: skip
def test_infeasible_goals_are_rejected_with_reason(opened, cell, goal, text):
    assert not opened.send(*goal).accepted
    cell.wait_for(text)


def test_every_rejected_goal_of_stream_was_logged(opened, cell):
    lines = lambda: cell.log.count("goal rejected: max_effort: got")  # noqa: E731
    before = lines()
    for number in range(20):
        assert not opened.send(0.01, 200.0 + number).accepted
    assert lines() - before <= 1, cell.log


def test_abort_reason_was_only_in_node_log(opened, cell, client):
    assert opened.run(0.02, 15.0)[0] == GoalStatus.STATUS_ABORTED, "no object to grasp"

    def reported():
        return client.diagnosis(f"{cell.name}/left")[1]["last gripper abort"]

    client.until(
        lambda: reported().startswith("left/gripper/gripper_action: grasp"), 5.0, "a reason"
    )


def test_rejected_goals_were_not_in_diagnostics(opened, cell, client):
    def counted():
        return int(client.diagnosis(f"{cell.name}/left")[1]["rejected gripper goals"])

    client.diagnosis(f"{cell.name}/left")
    client.forget_statuses()  # drops counts of earlier tests
    before = counted()
    for position in (-1.0, float("nan")):
        assert not opened.send(position, 0.0).accepted
    client.until(lambda: counted() >= before + 2, 5.0, "two more rejections")
    assert counted() == before + 2
    values = client.diagnosis(f"{cell.name}/left")[1]
    assert values["last gripper rejection"].startswith("goal rejected: position: got nan")


def test_cancel_stops_fingers(opened, client):
    handle = opened.send(0.0)
    client.until(lambda: opened.feedback and opened.feedback[-1].position < 0.037, 10.0, "motion")
    future = handle.cancel_goal_async()
    client.until(future.done, 10.0, "answer to the cancel request")
    status, result = opened.result(handle)
    assert status == GoalStatus.STATUS_CANCELED
    assert 0.005 < result.position < 0.038
    assert widths(client)[0] == pytest.approx(result.position, abs=2e-3)


def test_newer_goal_aborts_older_one_and_is_logged_once(opened, cell):
    ended = lambda: cell.log.count(": ended by move to")  # noqa: E731
    older, before = opened.send(0.0), ended()
    for number in range(10):  # each one was logged before
        opened.send(0.03 + 0.0005 * number)
    newer = opened.send(0.035)
    assert opened.result(older)[0] == GoalStatus.STATUS_ABORTED
    status, result = opened.result(newer)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.position == pytest.approx(0.035, abs=2e-4)
    assert ended() - before <= 1, cell.log


def test_services_respond_at_end_of_motion_without_blocking_node(opened, client):
    future_of = client.node.create_client(Trigger, "/left/gripper/homing")
    client.until(future_of.service_is_ready, 10.0, "service")
    future = future_of.call_async(Trigger.Request())
    messages = 0
    while not future.done() and messages < 2000:
        client.newest(JointState, "/left/joint_states")
        messages += 1
    assert future.result().success, future.result().message
    assert "0.0800 m" in future.result().message
    assert messages > 10  # states continued meanwhile
    closed = opened.trigger("close")
    assert closed.success
    assert "0.0000 m" in closed.message
    assert widths(client) == pytest.approx([0.0, 0.0], abs=5e-4)
    assert opened.trigger("stop").success


def test_stop_aborts_goal(opened, client):
    handle = opened.send(0.0)
    client.until(lambda: opened.feedback and opened.feedback[-1].position < 0.038, 10.0, "motion")
    assert opened.trigger("stop").success
    assert opened.result(handle)[0] == GoalStatus.STATUS_ABORTED


@pytest.mark.long
def test_object_is_grasped_and_arm_without_gripper_has_no_services(start, client):
    """A separate cell with a box between the fingers of the left gripper."""
    start(
        "arms.right.gripper:=false", "objects.table.position:=[0.45, 0.3, 0.43]",
        "objects.box.position:=[0.307, 0.3, 0.48]", "objects.box.size:=[0.02, 0.02, 0.03]",
        remap=("__ns:=/other",),
    ).wait_for("is active")  # fmt: skip
    gripper = Gripper(client, "/other" + ACTION)
    names = {name for name, _ in client.node.get_service_names_and_types()}
    assert "/other/left/gripper/open" in names
    assert not [name for name in names if name.startswith("/other/right/gripper")]
    status, result = gripper.run(0.02, 25.0)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert result.reached_goal
    assert result.stalled
    assert result.effort == 25.0
    assert result.position == pytest.approx(0.02, abs=5e-4)
    assert gripper.run(0.04, 25.0)[0] == GoalStatus.STATUS_SUCCEEDED
    status, result = gripper.run(0.01, 25.0)  # the box is wider
    assert status == GoalStatus.STATUS_ABORTED
    assert result.stalled
    closed = client.call(Trigger, "/other/left/gripper/close")
    assert closed.success
    assert "an object is held" in closed.message
