# SPDX-License-Identifier: Apache-2.0
"""Torque, velocity and position command interfaces over ROS services and topics."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from cell_names import LEFT_JOINTS
from control_msgs.action import FollowJointTrajectory
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import PoseStamped
from goals import Goals
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from multipanda_py.robots import MODELS

pytestmark = [pytest.mark.node, pytest.mark.clock]

STRICT, FORCE_AUTO = 2, 4
CELL = Path(__file__).parents[2] / "config" / "positions_sim.yaml"
SPACE = "/interfaces"
TORQUES, POSITIONS = "left_joint_impedance_controller", "left/joint_position_controller"
POSE, RATE = "left/cartesian_pose_controller", "left/joint_rate_controller"
RIGHT = [f"right_ur5e_{joint.name}" for joint in MODELS["ur5e"].joints]
STEP = np.array([0.1, -0.08, 0.1, 0.08, -0.1, 0.1, 0.1])


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    process = node_process(
        tmp_path_factory.mktemp("interfaces"),
        "controllets.joint_rate_controller.params.timeout:=10.0",  # a slow machine may stream late
        file=CELL,
        remap=[f"__ns:={SPACE}"],
    )
    process.wait_for("is active")
    yield process
    process.end()


@pytest.fixture
def manager(node, client):
    """A controller-manager client, with the left arm at rest under torque control."""
    manager = Manager(client)
    manager.rest()
    answer = manager.switch(TORQUES)
    assert answer.ok, answer.message
    return manager


class Manager:
    def __init__(self, client):
        self.client = client

    def switch(self, *activate, strictness=FORCE_AUTO, deactivate=()):
        return self.client.switch(activate, deactivate, strictness, SPACE)

    def listed(self):
        name = f"{SPACE}/controller_manager/list_controllers"
        return {info.name: info for info in self.client.call(ListControllers, name).controller}

    def claims(self, name):
        return list(self.listed()[name].claimed_interfaces)

    def joints(self):
        return np.array(self.client.newest(JointState, f"{SPACE}/left/joint_states").position)

    def speed(self):
        message = self.client.newest(JointState, f"{SPACE}/left/joint_states")
        return np.abs(message.velocity).max()

    def rest(self):
        self.switch(deactivate=[n for n, i in self.listed().items() if n.startswith("left")
                                and i.claimed_interfaces and n != "left/hold"])  # fmt: skip
        self.wait_for_rest(0.001, 10.0)

    def wait_for_rest(self, limit, timeout):
        """Wait for 0.2 s below the speed limit, as a braked joint swings back through zero."""
        slow_since = None

        def is_at_rest():
            nonlocal slow_since
            stamp = self.client.newest(JointState, f"{SPACE}/left/joint_states").header.stamp
            now = stamp.sec + 1e-9 * stamp.nanosec
            if self.speed() >= limit:
                slow_since = None
            elif slow_since is None:
                slow_since = now
            return slow_since is not None and now - slow_since >= 0.2

        self.client.until(is_at_rest, timeout, "rest")


def named(joints, interface):
    return [f"{joint}/{interface}" for joint in joints]


def test_list_reports_command_interfaces_of_each_controllet(manager):
    found = manager.listed()
    for name, joints, interface in (
        (TORQUES, LEFT_JOINTS, "effort"),
        (POSITIONS, LEFT_JOINTS, "position"),
        (POSE, LEFT_JOINTS, "position"),
        (RATE, LEFT_JOINTS, "velocity"),
        ("right/joint_position_controller", RIGHT, "position"),
        ("right/joint_rate_controller", RIGHT, "velocity"),
    ):
        assert list(found[name].required_command_interfaces) == named(joints, interface)
        active = found[name].state == "active"
        assert list(found[name].claimed_interfaces) == named(joints, interface) * active


def test_switches_between_torque_velocity_and_position_by_service(manager):
    before = manager.joints()
    for name, interface in ((POSITIONS, "position"), (RATE, "velocity"), (TORQUES, "effort")) * 2:
        answer = manager.switch(name)
        assert answer.ok, answer.message
        assert manager.claims(name) == named(LEFT_JOINTS, interface)
        assert manager.speed() < 0.01
    assert np.abs(manager.joints() - before).max() < 1e-3


def test_trajectory_under_position_commands(node, manager, client):
    action = f"{SPACE}/{POSITIONS}/follow_joint_trajectory"
    goals = Goals(client, FollowJointTrajectory, action)
    assert manager.switch(POSITIONS).ok
    start = manager.joints()
    points = [
        JointTrajectoryPoint(
            positions=(start + fraction * STEP).tolist(), time_from_start=Duration(sec=second)
        )
        for second, fraction in ((1, 0.6), (2, 1.0))
    ]
    goal = FollowJointTrajectory.Goal(
        trajectory=JointTrajectory(joint_names=LEFT_JOINTS, points=points)
    )
    status, result = goals.run(goal)
    assert status == GoalStatus.STATUS_SUCCEEDED, result.error_string
    assert np.abs(manager.joints() - start - STEP).max() < 2e-3
    assert manager.switch(TORQUES).ok
    _, result = goals.run(goal)
    reported = f"{POSITIONS} is not active; switch to it first ({TORQUES} has the arm)"
    assert result.error_string == reported


def test_pose_target_under_position_commands(manager, client):
    assert manager.switch(POSE).ok
    get = client.listen(PoseStamped, f"{SPACE}/left/current_pose")
    target = copy.deepcopy(client.newest(PoseStamped, f"{SPACE}/left/current_pose"))
    target.header.stamp.sec = target.header.stamp.nanosec = 0
    target.pose.position.z += 0.06

    def is_there():
        here, goal = get().pose.position, target.pose.position
        return max(abs(here.x - goal.x), abs(here.y - goal.y), abs(here.z - goal.z)) < 1e-3

    client.stream(f"{SPACE}/left/target_pose", target, is_there, "the pose")


def test_position_target_for_velocity_controllet_is_rejected_with_reason(node, manager, client):
    assert manager.switch(RATE).ok
    before, reported = manager.joints(), "target rejected: left: joint: got positions"
    there = JointState(name=LEFT_JOINTS, position=(before + 0.1).tolist())
    client.stream(f"{SPACE}/left/target_joint", there, lambda: reported in node.log, reported)
    assert np.abs(manager.joints() - before).max() < 1e-3


def test_force_auto_switch_in_motion_waits_for_rest(manager, client):
    assert manager.switch(RATE).ok
    rotation = JointState(name=LEFT_JOINTS, velocity=[0.0] * 6 + [-0.3])
    client.stream(f"{SPACE}/left/target_joint", rotation, lambda: manager.speed() > 0.25, "motion")
    answer = manager.switch(TORQUES, strictness=FORCE_AUTO)
    assert answer.ok, answer.message
    assert f"deactivated: {RATE}" in answer.message
    assert "left brought to rest" in answer.message
    assert manager.claims(TORQUES) == named(LEFT_JOINTS, "effort")


def test_strict_interface_change_in_motion_is_rejected_until_hold(manager, client):
    assert manager.switch(RATE).ok
    rotation = JointState(name=LEFT_JOINTS, velocity=[0.0] * 6 + [-0.3])
    client.stream(f"{SPACE}/left/target_joint", rotation, lambda: manager.speed() > 0.25, "motion")
    answer = manager.switch(TORQUES, strictness=STRICT, deactivate=[RATE])
    assert not answer.ok
    assert re.search(r"rad/s\b.*\bvelocity\b.*\beffort\b", answer.message)
    assert manager.claims(RATE)
    assert manager.switch(deactivate=[RATE], strictness=STRICT).ok
    manager.wait_for_rest(0.01, 5.0)
    answer = manager.switch(TORQUES, strictness=STRICT)
    assert answer.ok, answer.message


def test_torque_controllet_is_absent_for_arm_without_torque_interface(manager):
    answer = manager.switch("right/joint_impedance_controller")
    assert not answer.ok
    assert "right/joint_impedance_controller: " in answer.message
