# SPDX-License-Identifier: Apache-2.0
"""Names of franka_ros2 for its clients; parts of the tests need franka_msgs."""

from __future__ import annotations

import numpy as np
import pytest
from action_msgs.msg import GoalStatus
from control_msgs.action import GripperCommand
from geometry_msgs.msg import PoseStamped, WrenchStamped
from goals import Goals
from rcl_interfaces.srv import GetParameters
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from multipanda_py.pose import Pose

pytestmark = pytest.mark.node

SPACE, LAW = "/habits", "cartesian_impedance_controller"
ARM = f"{SPACE}/left"
TOPICS = f"{ARM}/franka_robot_state_broadcaster"


@pytest.fixture(scope="module")
def node(node_process, tmp_path_factory):
    node = node_process(
        tmp_path_factory.mktemp("habits"), "franka_names:=true", remap=[f"__ns:={SPACE}"]
    ).wait_for("is active")
    yield node
    assert node.end() == 0, node.log
    assert "Traceback" not in node.log, node.log


@pytest.fixture
def msgs(node):
    return pytest.importorskip("franka_msgs.srv", reason="franka_msgs is not installed")


@pytest.fixture
def actions(msgs):
    return pytest.importorskip("franka_msgs.action")


@pytest.fixture
def resting(node, client):
    """The left arm in hold, as robot settings require."""
    client.switch((), [LAW], 1, ARM)
    return node


def parameters(client, *names):
    values = client.call(
        GetParameters, f"{ARM}/franka/get_parameters", names=list(names)
    ).values  # fmt: skip
    return [v.double_value if v.type == 3 else list(v.double_array_value) for v in values]


def ask(client, kind, name, **fields):
    return client.call(kind, f"{ARM}/service_server/{name}", **fields)


def test_split_topics_equal_native_topics(node, client):
    pose = client.newest(PoseStamped, f"{TOPICS}/current_pose")
    ours = client.newest(PoseStamped, f"{ARM}/current_pose")
    assert pose.header.frame_id == ours.header.frame_id == "left_fr3_link0"
    coordinates = [[getattr(p.pose.position, axis) for axis in "xyz"] for p in (pose, ours)]
    assert np.allclose(*coordinates, atol=1e-3)
    desired = client.newest(PoseStamped, f"{TOPICS}/last_desired_pose")
    assert np.abs(desired.pose.position.z - pose.pose.position.z) < 0.01
    joints = client.newest(JointState, f"{ARM}/joint_states")
    for name in ("measured_joint_states", "desired_joint_states", "external_joint_torques"):
        message = client.newest(JointState, f"{TOPICS}/{name}")
        assert list(message.name) == list(joints.name)
        assert len(message.position) == len(message.velocity) == len(message.effort) == 7
        if name != "external_joint_torques":
            assert np.allclose(message.position, joints.position, atol=0.02)
    for name, frame in (("base", "left_fr3_link0"), ("stiffness", "left_fr3_hand_tcp")):
        message = client.newest(WrenchStamped, f"{TOPICS}/external_wrench_in_{name}_frame")
        assert message.header.frame_id == frame
    fingers = client.newest(JointState, f"{ARM}/franka_gripper/joint_states")
    assert list(fingers.name) == ["left_fr3_finger_joint1", "left_fr3_finger_joint2"]
    assert fingers.position[0] == pytest.approx(0.04, abs=1e-3)


def test_set_load_changes_robot_parameters(resting, msgs, client):
    inertia = [1e-3, 0.0, 1e-4, 0.0, 2e-3, 0.0, 1e-4, 0.0, 1.5e-3]
    answer = ask(
        client, msgs.SetLoad, "set_load", mass=0.4, center_of_mass=[0.0, 0.01, 0.1],
        load_inertia=inertia,
    )  # fmt: skip
    assert (answer.success, answer.error) == (True, "")
    mass, com, moments = parameters(client, "load_mass", "load_com", "load_inertia")
    assert (mass, com) == (0.4, [0.0, 0.01, 0.1])
    assert moments == [1e-3, 2e-3, 1.5e-3, 0.0, 1e-4, 0.0]  # xx yy zz xy xz yz
    refused = ask(client, msgs.SetLoad, "set_load", mass=40.0)
    assert not refused.success
    assert "load_mass" in refused.error
    assert parameters(client, "load_mass") == [0.4]
    assert ask(client, msgs.SetLoad, "set_load", mass=0.1).success, "point mass"
    assert parameters(client, "load_mass") == [0.1]
    assert ask(client, msgs.SetLoad, "set_load", mass=0.0).success


def test_collision_behaviour_and_stiffness(resting, msgs, client):
    torques, forces = [30.0] * 7, [25.0] * 6
    answer = ask(
        client, msgs.SetForceTorqueCollisionBehavior, "set_force_torque_collision_behavior",
        lower_torque_thresholds_nominal=torques, upper_torque_thresholds_nominal=torques,
        lower_force_thresholds_nominal=forces, upper_force_thresholds_nominal=forces,
    )  # fmt: skip
    assert answer.success, answer.error
    assert parameters(client, "upper_torque_thresholds", "lower_force_thresholds") == [
        torques, forces
    ]  # fmt: skip
    values = {
        f"{end}_{what}_thresholds_{when}": [size + (5.0 if when == "nominal" else 0.0)] * count
        for end in ("lower", "upper")
        for what, size, count in (("torque", 40.0, 7), ("force", 50.0, 6))
        for when in ("acceleration", "nominal")
    }
    answer = ask(client, msgs.SetFullCollisionBehavior, "set_full_collision_behavior", **values)
    assert answer.success, answer.error
    assert parameters(client, "upper_torque_thresholds") == [[40.0] * 7], "the lower of both"
    joint, cartesian = [2000.0] * 7, [2000.0] * 3 + [200.0] * 3
    assert ask(
        client, msgs.SetJointStiffness, "set_joint_stiffness", joint_stiffness=joint
    ).success  # fmt: skip
    assert ask(
        client, msgs.SetCartesianStiffness, "set_cartesian_stiffness",
        cartesian_stiffness=cartesian,
    ).success  # fmt: skip
    assert parameters(client, "joint_impedance", "cartesian_impedance") == [joint, cartesian]


def test_frames(resting, msgs, client):
    pose = Pose.from_rpy([0.0, 0.02, 0.05], [0.3, -0.2, 0.1])
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = pose.rotation, pose.position
    kind = msgs.SetStiffnessFrame
    columns = matrix.T.ravel().tolist()
    assert ask(client, kind, "set_stiffness_frame", transformation=columns).success
    coordinates, rpy = parameters(client, "stiffness_position", "stiffness_rpy")
    assert np.allclose(coordinates, pose.position)
    assert np.allclose(rpy, [0.3, -0.2, 0.1])
    refused = ask(client, kind, "set_stiffness_frame", transformation=matrix.ravel().tolist())
    assert "not a rigid motion" in refused.error  # row-major order
    refused = ask(client, msgs.SetTCPFrame, "set_tcp_frame", transformation=columns)
    assert not refused.success
    assert "`tool`" in refused.error
    identity = np.eye(4).ravel().tolist()
    assert ask(client, kind, "set_stiffness_frame", transformation=identity).success


def test_settings_are_rejected_while_controllet_controls_arm(node, msgs, client):
    assert client.switch([LAW], [LAW], 4, ARM).ok
    refused = ask(client, msgs.SetLoad, "set_load", mass=0.4)
    assert not refused.success
    assert LAW in refused.error


def test_recovery_grasp_move_and_homing(node, actions, client):
    recovery = Goals(client, actions.ErrorRecovery, f"{ARM}/action_server/error_recovery")
    assert recovery.run(actions.ErrorRecovery.Goal())[0] == GoalStatus.STATUS_SUCCEEDED
    gripper = f"{ARM}/franka_gripper"
    move = Goals(client, actions.Move, f"{gripper}/move")
    status, result = move.run(actions.Move.Goal(width=0.03, speed=0.1))
    assert (status, result.success) == (GoalStatus.STATUS_SUCCEEDED, True), result.error
    fingers = client.newest(JointState, f"{gripper}/joint_states")
    assert fingers.position[0] == pytest.approx(0.015, abs=5e-4)
    action = Goals(client, GripperCommand, f"{gripper}/gripper_action")
    half_width = GripperCommand.Goal()
    half_width.command.position = 0.02
    status, result = action.run(half_width)
    assert (status, result.reached_goal) == (GoalStatus.STATUS_SUCCEEDED, True)
    assert result.position == pytest.approx(0.04, abs=1e-3), "franka_ros2 reports the full width"
    ours = Goals(client, GripperCommand, f"{ARM}/gripper/gripper_action")
    assert ours.run(half_width)[1].position == pytest.approx(0.02, abs=5e-4)
    grasp = Goals(client, actions.Grasp, f"{gripper}/grasp")
    goal = actions.Grasp.Goal(width=0.02, speed=0.1, force=20.0)
    status, result = grasp.run(goal)
    assert (status, result.success) == (GoalStatus.STATUS_ABORTED, False), (
        "no object between the fingers"
    )
    assert result.error
    status, result = move.run(actions.Move.Goal(width=0.5, speed=0.1))
    assert status == GoalStatus.STATUS_ABORTED
    assert "width: got 0.5, allowed" in result.error
    homing = Goals(client, actions.Homing, f"{gripper}/homing")
    assert homing.run(actions.Homing.Goal())[0] == GoalStatus.STATUS_SUCCEEDED
    assert client.call(Trigger, f"{gripper}/stop").success


def test_robot_state(node, msgs, client):
    from franka_msgs.msg import FrankaRobotState

    assert client.switch([LAW], [LAW], 4, ARM).ok
    state = client.newest(FrankaRobotState, f"{TOPICS}/robot_state")
    joints = client.newest(JointState, f"{ARM}/joint_states")
    assert np.allclose(state.measured_joint_state.position, joints.position, atol=0.01)
    assert state.robot_mode == FrankaRobotState.ROBOT_MODE_MOVE
    assert state.o_t_ee.header.frame_id == "left_fr3_link0"
    assert state.k_f_ext_hat_k.header.frame_id == "left_fr3_hand_tcp"
    assert state.f_t_ee.pose.position.z == pytest.approx(0.1034)  # hand_tcp of a Franka Hand
    assert np.isnan(state.ddq_d).all(), "unknown fields are NaN"


def test_missing_franka_msgs_is_logged(node):
    try:
        import franka_msgs  # noqa: F401
    except ImportError:
        node.wait_for("franka_msgs is not installed. Its services, actions and robot_state")
    else:
        assert "franka_msgs is not installed" not in node.log
