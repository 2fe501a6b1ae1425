# SPDX-License-Identifier: Apache-2.0
"""Oversized requests, goals and messages: rejected at once, without a hold of any arm.

The node spent seconds to minutes on 100 000 entries; its heartbeat stopped and every arm held.
"""

from __future__ import annotations

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from cell_names import LEFT_JOINTS, TRAJECTORY
from control_msgs.action import FollowJointTrajectory
from control_msgs.msg import JointTolerance
from controller_manager_msgs.srv import ListControllers, LoadController, SwitchController
from goals import Goals
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import (
    DescribeParameters,
    GetParameters,
    ListParameters,
    SetParameters,
    SetParametersAtomically,
)
from sensor_msgs.msg import JointState
from simulation_interfaces.srv import GetEntityState
from std_msgs.msg import Float64MultiArray, String
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from multipanda_py.ros.node.bounded_messages import (
    MAX_MESSAGE_SIZE,
    MAX_REQUEST_SIZE,
    MAX_TARGET_SIZE,
    MAX_TRAJECTORY_SIZE,
)
from multipanda_py.ros.services.trajectory_goals import MAX_POINTS, GoalRefused, read_goal

pytestmark = pytest.mark.node

LAW = "/left/cartesian_impedance_controller"
MANY = ["x"] * 100_000
LONG = "x" * 5_000_000
Result = FollowJointTrajectory.Result


def parameters(number, value=1.0):
    one = Parameter(name="x", value=ParameterValue(type=3, double_value=value))
    return [one] * number


@pytest.fixture
def unheld(cell):
    """The shared node, whose heartbeat must not time out during the test."""
    before = cell.log.count("client_silent")
    yield cell
    assert cell.log.count("client_silent") == before


@pytest.mark.clock
@pytest.mark.parametrize(
    ("kind", "name", "fields"),
    [
        (SetParameters, f"{LAW}/set_parameters", {"parameters": parameters(100_000)}),
        (SetParametersAtomically, f"{LAW}/set_parameters_atomically",
         {"parameters": parameters(100_000)}),
        (SetParametersAtomically, f"{LAW}/set_parameters_atomically",
         {"parameters": [Parameter(name=LONG)]}),
        (SwitchController, "/controller_manager/switch_controller",
         {"activate_controllers": MANY, "strictness": 2}),
        (LoadController, "/controller_manager/load_controller", {"name": LONG}),
        (GetEntityState, "/get_entity_state", {"entity": LONG}),
    ],
)  # fmt: skip
def test_oversized_request_blocked_node_for_minute(unheld, client, kind, name, fields):
    answer = client.call(kind, name, **fields)
    results = getattr(answer, "results", [getattr(answer, "result", answer)])
    assert len(results) == 1
    for field in ("successful", "ok", "success"):
        assert not getattr(results[0], field, False)
    if (reason := getattr(results[0], "reason", None)) is not None:
        assert "allowed" in reason
        assert len(reason) < 200


@pytest.mark.clock
@pytest.mark.parametrize(
    ("kind", "name", "field", "answered"),
    [
        (GetParameters, "get_parameters", "names", "values"),
        (DescribeParameters, "describe_parameters", "names", "descriptors"),
        (ListParameters, "list_parameters", "prefixes", "result"),
    ],
)
def test_oversized_query_gets_empty_response(unheld, client, kind, name, field, answered):
    answer = client.call(kind, f"{LAW}/{name}", **{field: MANY})
    found = getattr(answer, answered)
    assert not list(getattr(found, "names", found))


@pytest.mark.clock
def test_maximum_number_of_parameters_gets_short_response(unheld, client):
    answer = client.call(
        SetParameters, f"{LAW}/set_parameters", parameters=parameters(MAX_REQUEST_SIZE.parts)
    )
    assert len(answer.results) == MAX_REQUEST_SIZE.parts
    assert not any(result.successful for result in answer.results)
    assert "known: " in answer.results[0].reason
    assert sum(len(result.reason) for result in answer.results) < 300_000


@pytest.mark.clock
@pytest.mark.parametrize(
    ("number", "reported"),
    [
        (MAX_POINTS + 1, f"got {MAX_POINTS + 1}, allowed up to {MAX_POINTS}"),
        (100_000, f"or more, allowed {MAX_TRAJECTORY_SIZE.parts}"),
    ],
)
def test_goal_with_too_many_points_held_every_arm(unheld, client, number, reported):
    point = JointTrajectoryPoint(positions=[0.0] * 7)
    trajectory = JointTrajectory(joint_names=LEFT_JOINTS, points=[point] * number)
    planner = Goals(client, FollowJointTrajectory, f"/left/{TRAJECTORY}/follow_joint_trajectory")
    assert client.switch([TRAJECTORY], [TRAJECTORY], 4, "/left").ok
    status, result = planner.run(FollowJointTrajectory.Goal(trajectory=trajectory))
    assert status == GoalStatus.STATUS_ABORTED
    assert result.error_code == Result.INVALID_GOAL
    assert reported in result.error_string


@pytest.mark.clock
@pytest.mark.parametrize(
    ("topic", "message", "limit"),
    [
        ("left/target_joint", JointState(name=MANY, position=[0.0] * len(MANY)), MAX_TARGET_SIZE),
        ("left/target_stiffness", Float64MultiArray(data=[1.0] * 1_000_000), MAX_TARGET_SIZE),
        ("heartbeat", String(data="x " * 1_000_000), MAX_MESSAGE_SIZE),
    ],
)
def test_oversized_message_is_rejected_by_size(unheld, client, topic, message, limit):
    client.stream(
        f"/{topic}", message, lambda: f"bytes, allowed {limit}" in unheld.log, "a rejection"
    )
    assert client.call(ListControllers, "/controller_manager/list_controllers").controller


def goal(points=2, names=LEFT_JOINTS, tolerances=0):
    trajectory = JointTrajectory(joint_names=names)
    for time in np.linspace(1.0, 9.0, points):
        part, whole = np.modf(time)
        stamp = Duration(sec=int(whole), nanosec=int(part * 1e9))
        trajectory.points.append(JointTrajectoryPoint(positions=[0.0] * 7, time_from_start=stamp))
    tolerance = [JointTolerance(name=LEFT_JOINTS[0], position=0.1)] * tolerances
    return FollowJointTrajectory.Goal(trajectory=trajectory, goal_tolerance=tolerance)


def test_numbers_of_goal_entries_are_limited():
    assert len(read_goal(goal(MAX_POINTS), LEFT_JOINTS, 0).points) == 128
    for wrong, field in (
        (goal(MAX_POINTS + 1), "trajectory.points"),
        (goal(tolerances=8), "goal_tolerance"),
        (goal(names=["x"] * 20_000), "got 20000 names"),
    ):
        with pytest.raises(GoalRefused) as found:
            read_goal(wrong, LEFT_JOINTS, 0)
        assert field in str(found.value)
        assert len(str(found.value)) < 1000
