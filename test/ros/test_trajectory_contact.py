# SPDX-License-Identifier: Apache-2.0
"""A trajectory into a table: the action reports the contact as abort reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

pytestmark = [pytest.mark.clock, pytest.mark.node]


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    process = node_process(
        tmp_path_factory.mktemp("contact"),
        file=Path(__file__).parent / "contact_cell.yaml",
        remap=["__ns:=/contact"],
    )
    process.wait_for("is active")
    yield process
    process.end()


@pytest.mark.long
def test_action_result_omitted_contact(node, client):
    name = "/contact/left/follow/follow_joint_trajectory"
    action = ActionClient(client.node, FollowJointTrajectory, name)
    client.until(action.server_is_ready, 10.0, name)
    joints = client.newest(JointState, "/contact/left/joint_states")
    down = np.array(joints.position) + [0.0, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0]
    point = JointTrajectoryPoint(positions=down.tolist(), time_from_start=Duration(sec=3))
    path = JointTrajectory(joint_names=list(joints.name), points=[point])
    sent = action.send_goal_async(FollowJointTrajectory.Goal(trajectory=path))
    client.until(sent.done, 10.0, "answer to the goal")
    future = sent.result().get_result_async()
    client.until(future.done, 10.0, "result")
    assert future.result().status == GoalStatus.STATUS_ABORTED
    result = future.result().result
    assert result.error_code == FollowJointTrajectory.Result.PATH_TOLERANCE_VIOLATED
    assert re.search(r"\bjoint \d", result.error_string)
    assert "(contact_torque)" in result.error_string
