# SPDX-License-Identifier: Apache-2.0
"""MoveIt on a running cell: controller lookup, switches and execution of plans."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
import ruckig
import yaml
from action_msgs.msg import GoalStatus
from builtin_interfaces.msg import Duration
from control_msgs.action import FollowJointTrajectory, GripperCommand
from control_msgs.msg import JointTolerance
from controller_manager_msgs.srv import ListControllers
from goals import Goals
from repository import ROOT
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

pytestmark = pytest.mark.node

FILES = ROOT / "config" / "moveit" / "dual_moveit"
SPACE, STRICT = "/plans", 2
CARTESIAN, SINGLE, DUAL = (
    "left/cartesian_impedance_controller", "left/joint_trajectory_controller",
    "dual_joint_trajectory_controller",
)  # fmt: skip
LOOKUP_NAMES = {  # types and action names of moveit_ros_control_interface
    "joint_trajectory_controller/JointTrajectoryController": "follow_joint_trajectory",
    "position_controllers/GripperActionController": "gripper_cmd",
}
SCALING = 0.3
PERIOD = 0.1  # sampling period of MoveIt [s]


@pytest.fixture(scope="module")
def node(node_process, tmp_path_factory):
    node = node_process(
        tmp_path_factory.mktemp("plans"), file=ROOT / "config" / "dual_moveit.yaml",
        remap=[f"__ns:={SPACE}"],
    ).wait_for("is active")  # fmt: skip
    yield node
    assert node.end() == 0, node.log
    assert "Traceback" not in node.log, node.log


@pytest.fixture(scope="module")
def simple():
    table = yaml.safe_load((FILES / "moveit_controllers.yaml").read_text())
    return table["moveit_simple_controller_manager"]


def listed(client):
    found = client.call(ListControllers, f"{SPACE}/controller_manager/list_controllers").controller
    return {one.name: one for one in found}


def without_kind(interfaces):
    return {name.partition("/")[0] for name in interfaces}


def switch_as_moveit(client, name):
    """Activate a controller as Ros2ControlManager: strictly, deactivating conflicting ones."""
    now = listed(client)
    expected = without_kind(now[name].required_command_interfaces)
    conflicting = [
        one.name
        for one in now.values()
        if one.state == "active" and expected & without_kind(one.claimed_interfaces)
    ]
    return client.switch([name], conflicting, STRICT, SPACE)


class Planner:
    """Planner of straight, collision-free and timed joint paths of both arms."""

    def __init__(self):
        urdf, srdf = str(FILES / "cell.urdf"), str(FILES / "cell.srdf")
        self.model = pin.buildModelFromUrdf(urdf)
        self.solids = pin.buildGeomFromUrdf(self.model, urdf, pin.COLLISION)
        self.solids.addAllCollisionPairs()
        pin.removeCollisionPairs(self.model, self.solids, srdf)
        self.limits = yaml.safe_load((FILES / "joint_limits.yaml").read_text())["joint_limits"]

    def limit(self, names, kind):
        return [SCALING * self.limits[name][f"max_{kind}"] for name in names]

    def plan(self, names, begin, end):
        """Return a collision-free trajectory of ruckig."""
        parameters = ruckig.InputParameter(len(names))
        parameters.current_position, parameters.target_position = list(begin), list(end)
        parameters.max_velocity = self.limit(names, "velocity")
        parameters.max_acceleration = self.limit(names, "acceleration")
        parameters.max_jerk = self.limit(names, "jerk")
        parameters.synchronization = ruckig.Synchronization.Phase
        path = ruckig.Trajectory(len(names))
        assert ruckig.Ruckig(len(names)).calculate(parameters, path) == ruckig.Result.Working
        for time in np.linspace(0.0, path.duration, 20):
            q = pin.neutral(self.model)
            for name, value in zip(names, path.at_time(time)[0]):
                q[self.model.joints[self.model.getJointId(name)].idx_q] = value
            placed = pin.GeometryData(self.solids)
            data = self.model.createData()
            assert not pin.computeCollisions(self.model, data, self.solids, placed, q, True)
        return path


@pytest.fixture(scope="module")
def planner():
    return Planner()


def goal_of(names, path):
    """Return a goal as MoveIt sends it: samples with velocities and accelerations, zero stamp."""
    points = []
    for time in [*np.arange(0.0, path.duration, PERIOD), path.duration]:
        q, dq, ddq = path.at_time(time)[:3]
        point = JointTrajectoryPoint(positions=q, velocities=dq, accelerations=ddq)
        point.time_from_start = Duration(sec=int(time), nanosec=int(time % 1.0 * 1e9))
        points.append(point)
    tolerances = [JointTolerance(name=name, position=0.05) for name in names]
    trajectory = JointTrajectory(joint_names=names, points=points)
    trajectory.header.frame_id = "world"
    return FollowJointTrajectory.Goal(
        trajectory=trajectory, path_tolerance=tolerances, goal_tolerance=tolerances
    )


def joints(client, names):
    message = client.newest(JointState, f"{SPACE}/joint_states")
    return np.array([message.position[list(message.name).index(name)] for name in names])


def play(client, planner, goals, names, end, joint_order=()):
    """Execute a plan to ``end`` and check the simulated joints; return the feedback count."""
    if len(joint_order):
        names, end = [names[i] for i in joint_order], end[joint_order]
    path = planner.plan(names, joints(client, names), end)
    status, result = goals.run(goal_of(names, path))
    assert (status, result.error_code) == (GoalStatus.STATUS_SUCCEEDED, 0), result.error_string
    assert np.abs(joints(client, names) - end).max() < 2e-3
    for message in goals.feedback:
        elapsed = message.desired.time_from_start
        indices = [list(message.joint_names).index(name) for name in names]
        desired, actual = (
            np.array(point.positions)[indices] for point in (message.desired, message.actual)
        )
        planned = path.at_time(min(elapsed.sec + elapsed.nanosec * 1e-9, path.duration))[0]
        assert np.abs(desired - planned).max() < 5e-3, "deviation from the planned path"
        assert np.abs(actual - planned).max() < 0.02
    return len(goals.feedback)


def test_controllers_have_types_and_actions_that_moveit_looks_up(node, client, simple):
    names = simple["controller_names"]
    now = listed(client)
    assert set(names) == {one.name for one in now.values() if one.type in LOOKUP_NAMES}
    for name in names:
        entry = simple[name]
        assert entry["action_ns"] == LOOKUP_NAMES[now[name].type]
        assert list(without_kind(now[name].required_command_interfaces)) == entry["joints"] or (
            without_kind(now[name].required_command_interfaces) == set(entry["joints"])
        )
        kinds = {"FollowJointTrajectory": FollowJointTrajectory, "GripperCommand": GripperCommand}
        Goals(client, kinds[entry["type"]], f"{SPACE}/{name}/{entry['action_ns']}")  # waits
    types = {one.name: one.type for one in now.values()}
    assert types["left/cartesian_impedance_controller"] == "cartesian_impedance"


def test_moveit_switches_to_controller_of_plan_and_back(node, client):
    for name in (CARTESIAN, SINGLE, DUAL, CARTESIAN, DUAL):
        answer = switch_as_moveit(client, name)
        assert answer.ok, answer.message
        assert listed(client)[name].state == "active"
    refused = client.switch((), ["left/gripper"], STRICT, SPACE)
    assert not refused.ok
    assert "left/gripper: " in refused.message


def test_dual_arm_plan_is_executed_on_one_clock(node, client, simple, planner):
    assert switch_as_moveit(client, DUAL).ok or listed(client)[DUAL].state == "active"
    entry = simple[DUAL]
    names = entry["joints"]
    begin = joints(client, names)
    end = begin + np.array(
        [0.4, -0.3, 0.2, 0.3, -0.4, 0.3, 0.5, -0.4, -0.3, -0.2, 0.3, 0.4, 0.3, -0.5]
    )
    goals = Goals(client, FollowJointTrajectory, f"{SPACE}/{DUAL}/{entry['action_ns']}")
    observed = play(client, planner, goals, names, end)
    order = np.random.default_rng(3).permutation(len(names))
    observed += play(client, planner, goals, names, begin, order)
    observed += play(client, planner, goals, names[7:], begin[7:] + 0.1)  # right arm only
    observed += play(client, planner, goals, names, begin)
    assert observed > 20


def test_single_arm_plan_is_executed_and_gripper_closes(node, client, simple, planner):
    assert switch_as_moveit(client, SINGLE).ok
    names = simple[SINGLE]["joints"]
    begin = joints(client, names)
    action = f"{SPACE}/{SINGLE}/{simple[SINGLE]['action_ns']}"
    goals = Goals(client, FollowJointTrajectory, action)
    play(client, planner, goals, names, begin + 0.15)
    play(client, planner, goals, names, begin)
    gripper_entry = simple["left/gripper"]
    closing = Goals(client, GripperCommand, f"{SPACE}/left/gripper/{gripper_entry['action_ns']}")
    goal = GripperCommand.Goal()
    goal.command.position = 0.01  # MoveIt derives it from the trajectory of the finger joint
    assert closing.run(goal)[0] == GoalStatus.STATUS_SUCCEEDED
    assert joints(client, gripper_entry["joints"])[0] == pytest.approx(0.01, abs=5e-4)
