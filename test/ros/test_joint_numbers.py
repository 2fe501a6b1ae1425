# SPDX-License-Identifier: Apache-2.0
"""Seven joints for an arm with six: rejected with both numbers at every interface."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from goals import Goals
from rcl_interfaces.srv import DescribeParameters, GetParameters, SetParameters
from rclpy.parameter import Parameter
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

pytestmark = pytest.mark.node

JOINTS = ["shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3"]
NAMES = [f"left_ur5e_{name}_joint" for name in JOINTS]
LAW = "/six/left/joint_impedance_controller"


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    process = node_process(
        tmp_path_factory.mktemp("six"),
        file=Path(__file__).parent / "six_joints_cell.yaml",
        remap=["__ns:=/six"],
    )
    process.wait_for("is active")
    yield process
    process.end()


@pytest.mark.parametrize(
    ("names", "numbers", "reason"),
    [
        ([*NAMES, "joint7"], 7, "name: got 7 names, allowed 6: joint7 unknown"),
        (NAMES, 7, "position: got 7 numbers for 6 names"),
        (NAMES[:5], 5, "name: got 5 names, allowed 6: left_ur5e_wrist_3_joint missing"),
    ],
)
def test_target_with_wrong_joint_count(node, client, names, numbers, reason):
    message = JointState(name=names, position=[0.0] * numbers)
    client.stream(
        "/six/left/target_joint",
        message,
        lambda: reason in client.diagnosis(f"{node.name}/left")[1]["last rejection"],
        reason,
    )


@pytest.mark.parametrize(
    ("names", "numbers", "reason"),
    [
        ([*NAMES, "joint7"], 7, "got 7 names, allowed 6: joint7 unknown"),
        (NAMES, 7, "positions: point 0 has 7 numbers, allowed 6"),
    ],
)
def test_trajectory_goal_with_wrong_joint_count(node, client, names, numbers, reason):
    action = "/six/left/joint_trajectory_controller/follow_joint_trajectory"
    goals = Goals(client, FollowJointTrajectory, action)
    answer = client.switch(
        ["joint_trajectory_controller"], ["joint_impedance_controller"], 4, "/six/left"
    )
    assert answer.ok, answer.message
    point = JointTrajectoryPoint(positions=[0.0] * numbers, time_from_start=Duration(sec=2))
    trajectory = JointTrajectory(joint_names=names, points=[point])
    handle = goals.send(FollowJointTrajectory.Goal(trajectory=trajectory))
    if handle.accepted:
        assert reason in goals.result(handle)[1].error_string
    else:
        assert reason in client.diagnosis(f"{node.name}/left")[1]["last rejection"]


def test_parameter_with_wrong_joint_count(node, client):
    requested = {"names": ["stiffness"]}
    found = client.call(DescribeParameters, f"{LAW}/describe_parameters", **requested).descriptors[
        0
    ]
    assert found.additional_constraints.startswith("6 numbers, one per joint")
    value = Parameter("stiffness", value=[50.0] * 7).to_parameter_msg()
    answer = client.call(SetParameters, f"{LAW}/set_parameters", parameters=[value]).results[0]
    assert not answer.successful
    assert re.search(r"stiffness: .*\b7 numbers\b.*\b6 numbers", answer.reason)
    kept = client.call(GetParameters, f"{LAW}/get_parameters", **requested).values[0]
    assert len(kept.double_array_value) == 6
