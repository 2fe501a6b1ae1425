# SPDX-License-Identifier: Apache-2.0
"""FollowJointTrajectory of two arms on one clock, and simultaneous goals of each arm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from goals import Goals
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from multipanda_py import Cell
from multipanda_py.planning.trajectory.quintic import evaluate

pytestmark = [pytest.mark.clock, pytest.mark.node]

FILE = Path(__file__).with_name("two_arms_cell.yaml")
SPACE = "/two"
DUAL, SINGLE = "dual_joint_trajectory_controller", "joint_trajectory_controller"
NAMES = {arm: [f"{arm}_fr3_joint{n}" for n in range(1, 8)] for arm in ("left", "right")}
ALL = NAMES["left"] + NAMES["right"]
STEP = np.array([0.12, -0.1, 0.1, 0.08, -0.12, 0.15, 0.2] * 2)
Result = FollowJointTrajectory.Result


@pytest.fixture(scope="module")
def node(node_process, tmp_path_factory):
    node = node_process(
        tmp_path_factory.mktemp("two"), file=FILE, remap=[f"__ns:={SPACE}"]
    ).wait_for("is active")
    yield node
    assert node.end() == 0, node.log
    assert "Traceback" not in node.log, node.log


def action(client, name):
    return Goals(client, FollowJointTrajectory, f"{SPACE}/{name}/follow_joint_trajectory")


@pytest.fixture(scope="module")
def planner(node, client):
    return action(client, DUAL)


def joints(client):
    message = client.newest(JointState, f"{SPACE}/joint_states")
    return np.array([message.position[list(message.name).index(name)] for name in ALL])


@pytest.fixture
def ready(node, client):
    """Both arms under the dual-arm controllet; returns their joint positions."""
    answer = client.switch([DUAL], [DUAL], 4, SPACE)
    assert answer.ok, answer.message
    return joints(client)


def duration(seconds):
    return Duration(sec=int(seconds), nanosec=round((seconds - int(seconds)) * 1e9))


def goal_to(names, q, seconds, **fields):
    order = list(range(len(names)))[::-1]
    point = JointTrajectoryPoint(
        positions=[float(q[i]) for i in order], time_from_start=duration(seconds)
    )
    path = JointTrajectory(joint_names=[names[i] for i in order], points=[point])
    return FollowJointTrajectory.Goal(trajectory=path, **fields)


@pytest.mark.slow
def test_one_goal_for_fourteen_joints_in_any_order(ready, planner, client):
    status, result = planner.run(goal_to(ALL, ready + STEP, 1.0))
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    assert np.abs(joints(client) - ready - STEP).max() < 2e-3
    assert list(planner.feedback[-1].joint_names) == ALL
    for message in planner.feedback:
        desired, actual = (np.array(p.positions) for p in (message.desired, message.actual))
        assert np.allclose(message.error.positions, desired - actual)
        assert np.abs(desired - actual).max() < 0.02
    assert planner.run(goal_to(ALL, ready, 1.0))[0] == GoalStatus.STATUS_SUCCEEDED


def goal_of(plan):
    """Return a plan of ``Cell.plan`` as one goal of all joints."""
    parts = [plan.points[arm] for arm in NAMES]
    times = parts[0][:, 0]
    assert all(np.array_equal(part[:, 0], times) for part in parts)
    q, dq, ddq = (
        np.hstack([np.split(part[:, 1:], 3, axis=1)[order] for part in parts]).tolist()
        for order in range(3)
    )
    points = [
        JointTrajectoryPoint(
            positions=row[0], velocities=row[1], accelerations=row[2],
            time_from_start=duration(float(row[3])),
        )
        for row in zip(q, dq, ddq, times)
    ]  # fmt: skip
    path = JointTrajectory(joint_names=ALL, points=points)
    return FollowJointTrajectory.Goal(trajectory=path)


@pytest.mark.long
def test_dual_arm_plan_of_cell_is_one_goal(ready, planner, client):
    """An in-process cell of the same file computes the plan; both arms share one clock."""
    with Cell.from_yaml(FILE, placement="inline") as twin:
        twin.switch([DUAL], strictness="force_auto")
        twin.step(10)
        start = np.concatenate([twin.state(arm).q for arm in NAMES])
        assert np.abs(start - ready).max() < 5e-3
        goals = dict(zip(NAMES, np.split(start + STEP, 2)))
        plan = twin.plan(goals, velocity_scaling=0.5)
    status, result = planner.run(goal_of(plan))
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    assert np.abs(joints(client) - start - STEP).max() < 3e-3
    assert len(planner.feedback) > 5
    for message in planner.feedback:
        elapsed = seconds(message.desired.time_from_start)
        for arm_index, arm in enumerate(NAMES):
            planned = evaluate(plan.points[arm], np.array([min(elapsed, plan.duration)]))[0, 0]
            part = slice(7 * arm_index, 7 * arm_index + 7)
            assert np.abs(np.array(message.desired.positions)[part] - planned).max() < 5e-3
            assert np.abs(np.array(message.actual.positions)[part] - planned).max() < 0.02
    assert planner.run(goal_to(ALL, ready, 1.0))[0] == GoalStatus.STATUS_SUCCEEDED


def test_joint_names_and_tolerances_are_checked_for_both_arms(ready, planner, client):
    status, result = planner.run(goal_to(ALL[:13], ready[:13], 1.0))
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Result.INVALID_JOINTS)
    assert "13 names, allowed 14" in result.error_string
    result = planner.run(goal_to(ALL[:6], ready[:6], 1.0))[1]
    assert "left_fr3_joint7 missing" in result.error_string
    of_unknown_joint = [JointTolerance(name="fr3_joint2", position=0.1)]
    result = planner.run(goal_to(ALL, ready, 1.0, path_tolerance=of_unknown_joint))[1]
    assert result.error_code == Result.INVALID_JOINTS
    outside = ready.copy()
    outside[10] = 0.2
    result = planner.run(goal_to(ALL, outside, 1.0))[1]
    assert "joint 4 of right: " in result.error_string
    tight = [JointTolerance(name=ALL[8], position=1e-7)]
    result = planner.run(goal_to(ALL, ready + STEP, 1.0, path_tolerance=tight))[1]
    assert result.error_code == Result.PATH_TOLERANCE_VIOLATED
    assert np.abs(joints(client) - ready).max() < 0.1


@pytest.mark.slow
def test_single_arm_plan_was_rejected_under_dual_arm_controllet(ready, planner, client):
    """Planners send a plan to the active controllet of its joints."""
    status, result = planner.run(goal_to(NAMES["right"], ready[7:] + STEP[7:], 1.0))
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    moved = joints(client) - ready
    assert np.abs(moved[7:] - STEP[7:]).max() < 2e-3
    assert np.abs(moved[:7]).max() < 1e-3
    first = planner.send(goal_to(ALL, ready, 2.0))
    client.until(lambda: len(planner.feedback) > 12, 10.0, "feedback")
    status, result = planner.run(goal_to(NAMES["left"], ready[:7], 1.0))
    assert "right" in result.error_string
    assert planner.result(first)[0] == GoalStatus.STATUS_SUCCEEDED
    assert np.abs(joints(client) - ready).max() < 2e-3


def test_cancel_stops_both_arms_on_path_and_newer_goal_continues(ready, planner, client):
    handle = planner.send(goal_to(ALL, ready + 2 * STEP, 3.0))
    client.until(lambda: len(planner.feedback) > 12, 10.0, "feedback")
    future = handle.cancel_goal_async()
    client.until(future.done, 10.0, "answer to the cancel request")
    status, result = planner.result(handle)
    assert (status, result.error_string) == (GoalStatus.STATUS_CANCELED, "stopped on request")
    fraction = (joints(client) - ready) / (2 * STEP)
    assert 0.01 < fraction.min() <= fraction.max() < 0.9
    assert np.ptp(fraction) < 0.03
    first = planner.send(goal_to(ALL, ready + 2 * STEP, 3.0))
    client.until(lambda: len(planner.feedback) > 3, 10.0, "feedback")
    second = planner.send(goal_to(ALL, ready, 1.5))
    assert planner.result(first)[1].error_string == "replaced by a newer goal"
    assert planner.result(second)[0] == GoalStatus.STATUS_SUCCEEDED
    assert np.abs(joints(client) - ready).max() < 2e-3


def stamped(client, goal, seconds):
    now = client.node.get_clock().now().nanoseconds + round(seconds * 1e9)
    stamp = goal.trajectory.header.stamp
    stamp.sec, stamp.nanosec = divmod(now, 1_000_000_000)
    return stamp


def test_goal_waiting_for_stamp_rests_and_can_be_canceled(ready, planner, client):
    goal = goal_to(ALL, ready + STEP, 1.0)
    stamped(client, goal, 5.0)
    handle = planner.send(goal)
    future = handle.cancel_goal_async()
    client.until(future.done, 10.0, "answer to the cancel request")
    assert planner.result(handle, 4.0)[0] == GoalStatus.STATUS_CANCELED
    assert np.abs(joints(client) - ready).max() < 1e-3


@pytest.mark.slow
def test_goals_of_two_arms_with_equal_stamp_started_apart(node, client):
    names = [f"{arm}/{SINGLE}" for arm in NAMES]
    assert client.switch(names, (), 4, SPACE).ok
    ready = joints(client)
    planners = {arm: action(client, f"{arm}/{SINGLE}") for arm in NAMES}
    goals = {
        arm: goal_to(NAMES[arm], q + 0.5 * STEP[:7], 1.0)
        for arm, q in zip(NAMES, np.split(ready, 2))
    }
    stamp = stamped(client, goals["left"], 1.0)
    goals["right"].trajectory.header.stamp = stamp
    handles = {arm: planners[arm].send(goal) for arm, goal in goals.items()}
    for arm, handle in handles.items():
        status, result = planners[arm].result(handle)
        assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    begun = {arm: start_time(planner.feedback) for arm, planner in planners.items()}
    assert begun["left"] == pytest.approx(begun["right"], abs=2e-3)
    assert begun["left"] == pytest.approx(stamp.sec + stamp.nanosec * 1e-9, abs=0.1)
    assert np.abs(joints(client) - ready - 0.5 * STEP).max() < 2e-3


def start_time(feedback):
    """Return the start time of a motion by the clock of the node [s]."""
    pairs = [(f.header.stamp, f.desired.time_from_start) for f in feedback]
    return np.median([seconds(now) - seconds(elapsed) for now, elapsed in pairs])


def seconds(stamp):
    return stamp.sec + stamp.nanosec * 1e-9
