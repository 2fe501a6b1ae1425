# SPDX-License-Identifier: Apache-2.0
"""FollowJointTrajectory action: execution of valid goals, reasons for invalid ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from cell_names import LEFT_JOINTS, TRAJECTORY
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from goals import Goals
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

pytestmark = pytest.mark.node

ACTION = f"/left/{TRAJECTORY}/follow_joint_trajectory"
STEP = np.array([0.12, -0.1, 0.1, 0.08, -0.12, 0.15, 0.2])
ORDER = [3, 0, 6, 1, 5, 2, 4]
Result = FollowJointTrajectory.Result


class Planner(Goals):
    """A client of the action that also cancels."""

    def __init__(self, client):
        super().__init__(client, FollowJointTrajectory, ACTION)

    def cancel(self, handle):
        future = handle.cancel_goal_async()
        self._client.until(future.done, 10.0, "answer to the cancel request")
        return future.result()


@pytest.fixture(scope="module")
def planner(shared_node, client):
    return Planner(client)


@pytest.fixture
def ready(cell, client):
    """The left arm under the trajectory controllet; returns its joint positions."""
    answer = client.switch([TRAJECTORY], [TRAJECTORY], 4, "/left")
    assert answer.ok, answer.message
    message = client.newest(JointState, "/left/joint_states")
    return np.array(message.position)


def joints(client):
    return np.array(client.newest(JointState, "/left/joint_states").position)


def duration(seconds):
    whole = int(seconds)
    return Duration(sec=whole, nanosec=round((seconds - whole) * 1e9))


def goal_through(times, configurations, order=range(7), **fields):
    points = [
        JointTrajectoryPoint(positions=[float(q[i]) for i in order], time_from_start=duration(t))
        for t, q in zip(times, configurations)
    ]
    trajectory = JointTrajectory(joint_names=[LEFT_JOINTS[i] for i in order], points=points)
    return FollowJointTrajectory.Goal(trajectory=trajectory, **fields)


def there_and_back(q, seconds=1.2):
    times = np.linspace(0.0, seconds, 7)
    return goal_through(times, [q + STEP * np.sin(np.pi * t / seconds) ** 2 for t in times])


def test_points_in_any_joint_order_are_followed_with_feedback(ready, planner, client):
    end = ready + STEP
    goal = goal_through([0.6, 1.2], [ready + 0.6 * STEP, end], ORDER)
    status, result = planner.run(goal)
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, Result.SUCCESSFUL)
    assert "largest error" in result.error_string
    assert np.abs(joints(client) - end).max() < 2e-3
    elapsed = [f.desired.time_from_start for f in planner.feedback]
    elapsed = np.array([t.sec + t.nanosec * 1e-9 for t in elapsed])
    assert len(elapsed) >= 5
    assert np.diff(elapsed).min() > 0.0
    assert np.median(np.diff(elapsed)) == pytest.approx(0.05, abs=0.03)
    for message in planner.feedback:
        assert list(message.joint_names) == LEFT_JOINTS
        desired, actual = (np.array(p.positions) for p in (message.desired, message.actual))
        assert np.allclose(message.error.positions, desired - actual)
        assert np.abs(desired - actual).max() < 0.02
    if hasattr(planner.feedback[-1], "index"):
        assert {f.index for f in planner.feedback} == {0, 1}


def test_waiting_for_goal_does_not_load_node(ready, planner, client, shared_node):
    def cpu():
        fields = Path(f"/proc/{shared_node.process.pid}/stat").read_text().rsplit(")", 1)[1]
        return sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")

    handle = planner.send(there_and_back(ready, 2.0))
    used, since = cpu(), time.monotonic()
    planner.result(handle)
    assert (cpu() - used) / (time.monotonic() - since) < 0.6


def test_failure_reason_was_only_in_node_log(cell, planner, client):
    """A goal rejection has no text; a result has."""
    status, result = planner.run(goal_through([1.0], [joints(client)]))
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, Result.INVALID_GOAL)
    reason = (
        f"left/{TRAJECTORY} is not active; switch to it first "
        "(left/cartesian_impedance_controller has the arm)"
    )
    assert result.error_string == reason
    cell.wait_for(reason)


def test_joint_stream_aborted_goal_and_moved_arm_back_afterwards(ready, planner, client, cell):
    """Clients repeat their newest target; a stream is accepted again once its value changes."""
    counted = lambda: int(client.diagnosis(f"{cell.name}/left")[1]["rejected targets"])  # noqa: E731
    counted()  # the first call takes up to 1 s, a pause of the stream
    reported = "follows a trajectory; wait for its end or cancel it"
    before = cell.log.count(reported)  # of other tests on this node
    stale = JointState(name=list(LEFT_JOINTS), position=[float(x) for x in ready])
    handle = planner.send(goal_through([1.0], [ready + STEP]))
    client.stream("/left/target_joint", stale, lambda: handle.status > 3, "the end of the goal")
    status, result = planner.result(handle)
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    assert max(before, 1) <= cell.log.count(reported) <= before + 1, "once in ten seconds"
    observed = counted() + 40  # more than arrived since the check
    client.stream("/left/target_joint", stale, lambda: counted() > observed, "the stale stream")
    assert np.abs(joints(client) - ready - STEP).max() < 2e-3
    fresh = JointState(name=list(LEFT_JOINTS), position=[float(x) for x in ready + 0.5 * STEP])
    there = lambda: np.abs(joints(client) - ready - 0.5 * STEP).max() < 2e-3  # noqa: E731
    client.stream("/left/target_joint", fresh, there, "the new joint configuration")


def test_goal_rejection_reason_was_not_in_diagnostics(ready, planner, client, cell):
    """Diagnostics contained only the count."""
    for case in ("no points", "outside limits"):  # rejected before and by the cell
        goal = there_and_back(ready)
        _, reason = invalidate(goal, case)
        planner.run(goal)
        last_rejection_contains(client, cell, reason)
    assert client.switch([], [TRAJECTORY], 4, "/left").ok
    planner.run(there_and_back(ready))
    last_rejection_contains(client, cell, f"left/{TRAJECTORY} is not active")


def last_rejection_contains(client, cell, reason):
    hardware = f"{cell.name}/left"
    client.until(
        lambda: reason in client.diagnosis(hardware)[1]["last rejection"],
        10.0,
        f"rejection: {reason}",
    )


def invalidate(goal, case):
    """Invalidate a goal; return the expected code and a part of the reason."""
    trajectory, points = goal.trajectory, goal.trajectory.points
    if case == "missing joint":
        trajectory.joint_names = LEFT_JOINTS[:6]
        return Result.INVALID_JOINTS, "left_fr3_joint7 missing; expected left_fr3_joint1"
    if case == "unknown joint":
        trajectory.joint_names = [*LEFT_JOINTS, "finger"]
        return Result.INVALID_JOINTS, "finger unknown"
    if case == "duplicate joint":
        trajectory.joint_names = [*LEFT_JOINTS, LEFT_JOINTS[0]]
        return Result.INVALID_JOINTS, "got 8 names"
    if case == "tolerance of an unknown joint":
        goal.path_tolerance = [JointTolerance(name="elbow", position=0.1)]
        return Result.INVALID_JOINTS, "path_tolerance: elbow unknown"
    if case == "no points":
        trajectory.points = []
        return Result.INVALID_GOAL, "trajectory.points: "
    if case == "constant time":
        points[3].time_from_start = points[2].time_from_start
        return Result.INVALID_GOAL, "time_from_start: must start at 0 or later and increase"
    if case == "68 years":  # was accepted and occupied the arm
        points[-1].time_from_start = Duration(sec=2**31 - 1)
        return (
            Result.INVALID_GOAL,
            "got 2.14748e+09 s from the start to the last point, allowed up to 3600",
        )
    if case == "too few positions":
        points[2].positions = points[2].positions[:6]
        return Result.INVALID_GOAL, "positions: point 2 has 6 numbers, allowed 7"
    if case == "velocities in one point":
        points[2].velocities = [0.0] * 7
        return Result.INVALID_GOAL, "velocities: point 0 has 0 numbers, allowed 7 in every point"
    if case == "effort":
        points[2].effort = [0.0] * 7
        return Result.INVALID_GOAL, "effort: not supported"
    if case == "nan":
        points[2].positions[4] = float("nan")
        return Result.INVALID_GOAL, "point 2 has nan for left_fr3_joint"
    if case == "outside limits":
        points[3].positions[3] = 0.2
        return Result.INVALID_GOAL, "joint 4 of left: point 3 has position 0.2000 rad"
    if case == "different start":
        for point in points:
            point.positions[0] += 0.5
        return Result.INVALID_GOAL, "(gate.joint)"
    if case == "too fast":
        for number, point in enumerate(points):
            point.time_from_start = duration(0.005 * number)
        return Result.INVALID_GOAL, "and +-2.62"
    if case == "velocity tolerance":
        goal.goal_tolerance = [JointTolerance(name=LEFT_JOINTS[0], velocity=0.1)]
        return Result.INVALID_GOAL, "only positions are monitored"
    if case == "starts in an hour":
        trajectory.header.stamp.sec = int(time.time()) + 3600
        return Result.INVALID_GOAL, "s in the future, allowed 10 s. Synchronise"
    trajectory.header.stamp.sec = 1
    return Result.OLD_HEADER_TIMESTAMP, "header.stamp: the trajectory ended"


@pytest.mark.parametrize(
    "case",
    ["missing joint", "unknown joint", "duplicate joint", "tolerance of an unknown joint",
     "no points", "constant time", "68 years", "too few positions",
     "velocities in one point", "effort",
     "nan", "outside limits", "different start", "too fast", "velocity tolerance", "old",
     "starts in an hour"],
)  # fmt: skip
def test_infeasible_goal_is_aborted_with_reason_and_without_motion(ready, planner, client, case):
    goal = there_and_back(ready)
    code, reason = invalidate(goal, case)
    status, result = planner.run(goal)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, code)
    assert reason in result.error_string
    assert np.abs(joints(client) - ready).max() < 1e-3


def test_past_stamp_skips_elapsed_points(ready, planner, client):
    goal = goal_through([0.2, 5.0, 6.0], [ready + 5.0, ready, ready + 0.5 * STEP])
    now = client.node.get_clock().now().nanoseconds - 4_500_000_000
    stamp = goal.trajectory.header.stamp
    stamp.sec, stamp.nanosec = divmod(now, 1_000_000_000)
    started = time.monotonic()
    status, _ = planner.run(goal)
    assert status == GoalStatus.STATUS_SUCCEEDED
    assert time.monotonic() - started < 4.0
    assert np.abs(joints(client) - ready - 0.5 * STEP).max() < 2e-3


def test_excess_points_are_thinned_out(ready, planner, client):
    times = np.linspace(0.0, 1.5, 400)
    path = [ready + STEP * (1 - np.cos(np.pi * t / 1.5)) / 2 for t in times]
    status, result = planner.run(goal_through(times, path))
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    assert np.abs(joints(client) - path[-1]).max() < 2e-3


def test_cancel_stops_arm_on_path(ready, planner, client):
    handle = planner.send(goal_through([4.0], [ready + 3 * STEP]))
    client.until(lambda: len(planner.feedback) > 12, 10.0, "feedback")
    assert len(planner.cancel(handle).goals_canceling) == 1
    status, result = planner.result(handle)
    assert (status, result.error_code) == (GoalStatus.STATUS_CANCELED, Result.SUCCESSFUL)
    stopped = joints(client)
    fraction = (stopped - ready) / (3 * STEP)
    assert 0.01 < fraction.min() <= fraction.max() < 0.7
    now = client.newest(JointState, "/left/joint_states")
    assert np.abs(np.array(now.velocity)).max() < 0.01
    assert np.abs(joints(client) - stopped).max() < 2e-3
    assert planner.run(there_and_back(stopped))[0] == GoalStatus.STATUS_SUCCEEDED


@pytest.mark.parametrize(
    ("tolerances", "code", "reason"),
    [
        ({"path_tolerance": [JointTolerance(name=LEFT_JOINTS[1], position=1e-7)]},
         Result.PATH_TOLERANCE_VIOLATED, "beyond the path tolerance"),
        ({"goal_tolerance": [JointTolerance(name=LEFT_JOINTS[6], position=1e-13)],
          "goal_time_tolerance": Duration(nanosec=20_000_000)},
         Result.GOAL_TOLERANCE_VIOLATED, "not within the goal tolerance in time"),
    ],
    ids=["path", "goal"],
)  # fmt: skip
def test_tolerances_apply_only_to_their_goal(ready, planner, client, tolerances, code, reason):
    goal = there_and_back(ready)
    for field, value in tolerances.items():
        setattr(goal, field, value)
    status, result = planner.run(goal)
    assert (status, result.error_code) == (GoalStatus.STATUS_ABORTED, code)
    assert reason in result.error_string
    assert planner.run(there_and_back(joints(client)))[1].error_code == Result.SUCCESSFUL


def test_newer_goal_and_switch_abort_goal(ready, planner, client):
    first = planner.send(goal_through([4.0], [ready + STEP]))
    client.until(lambda: len(planner.feedback) > 2, 10.0, "feedback")
    second = planner.send(goal_through([4.0], [ready - STEP]))
    status, result = planner.result(first)
    assert (status, result.error_string) == (GoalStatus.STATUS_ABORTED, "replaced by a newer goal")
    client.until(lambda: len(planner.feedback) > 2, 10.0, "feedback")
    assert client.switch((), [TRAJECTORY], 2, "/left").ok
    status, result = planner.result(second)
    assert status == GoalStatus.STATUS_ABORTED
    requested = "/left/joint_trajectory_controller was deactivated by a switch that requested it"
    assert result.error_string.startswith(requested[1:]), "the cause was missing"
    assert "requested by service /left/controller_manager/switch_controller" in result.error_string
