# SPDX-License-Identifier: Apache-2.0
"""Published states, description and diagnostics."""

from __future__ import annotations

import os
import signal
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.time import Time
from requirements import needs_pylibfranka
from robots import unused_address
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger

from multipanda_py.simulation.fci import FciSim

pytestmark = [pytest.mark.clock, pytest.mark.node, pytest.mark.workspace]


def age(client, message):
    return (client.node.get_clock().now() - Time.from_msg(message.header.stamp)).nanoseconds * 1e-9


def test_joint_states_of_one_arm(cell, client):
    message = client.newest(JointState, "/right/joint_states")
    assert list(message.name) == [f"right_fr3_joint{number}" for number in range(1, 8)]
    assert np.allclose(message.velocity, 0.0, atol=0.05)
    assert max(message.effort, key=abs) > 10.0, "gravity is part of tau_J"
    assert -0.001 < age(client, message) < 1.0


def test_arms_of_one_cycle_had_different_stamps(cell, client):
    """The clock was read once per arm; tf and camera pairs rely on equal stamps."""
    stamps, subscriptions = {"left": set(), "right": set()}, []
    for arm, observed in stamps.items():

        def keep(message, observed=observed):
            observed.add((message.header.stamp.sec, message.header.stamp.nanosec))

        topic = f"/{arm}/current_twist"
        subscriptions.append(client.node.create_subscription(TwistStamped, topic, keep, 10))
    client.until(lambda: len(stamps["left"] & stamps["right"]) > 5, 10.0, "equal stamps")
    for one in subscriptions:
        client.node.destroy_subscription(one)


def test_merged_joint_states_have_all_arms_and_fingers(cell, client):
    message = client.newest(JointState, "/joint_states")
    one = [f"joint{number}" for number in range(1, 8)] + ["finger_joint1", "finger_joint2"]
    assert list(message.name) == [f"{arm}_fr3_{name}" for arm in ("left", "right") for name in one]
    assert len(message.position) == len(message.velocity) == len(message.effort) == 18
    assert all(0.0 <= message.position[finger] <= 0.041 for finger in (7, 8, 16, 17))


def test_joint_names_equal_those_of_description(cell, client):
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    robot = ET.fromstring(client.newest(String, "/robot_description", qos=latched).data)
    movable = {j.get("name") for j in robot.iter("joint") if j.get("type") != "fixed"}
    assert set(client.newest(JointState, "/joint_states").name) == movable


@pytest.mark.parametrize(
    ("kind", "topic"),
    [
        (PoseStamped, "current_pose"),
        (TwistStamped, "current_twist"),
        (WrenchStamped, "external_wrench"),
    ],
)
def test_frame_is_base_of_arm(cell, client, kind, topic):
    message = client.newest(kind, f"/left/{topic}")
    assert message.header.frame_id == "left_fr3_link0"
    assert -0.001 < age(client, message) < 1.0


def test_pose_is_in_front_of_base_with_unit_quaternion(cell, client):
    pose = client.newest(PoseStamped, "/right/current_pose").pose
    quaternion = pose.orientation
    assert np.linalg.norm(
        [quaternion.x, quaternion.y, quaternion.z, quaternion.w]
    ) == pytest.approx(1.0, abs=1e-9)
    assert 0.2 < pose.position.x < 0.7
    assert abs(pose.position.y) < 0.3  # earlier tests may have moved it


def test_diagnostics(cell, client):
    status, loop = client.diagnosis(cell.name)
    assert status.name == "multimode_controller: loop"
    assert 500.0 < float(loop["rate [Hz]"]) < 1100.0
    assert float(loop["compute p50 [us]"]) > 1.0
    for arm in ("left", "right"):
        status, values = client.diagnosis(f"{cell.name}/{arm}")
        assert status.name == f"multimode_controller: {arm}"
        assert status.level == DiagnosticStatus.OK
        assert values["fault"] == "none"


ONE_REAL = """
/**:
  ros__parameters:
    arms:
      left: {{backend: franka, robot_ip: "{ip}", gripper: false, franka: {{priority: 0}}}}
    realtime: {{priority: 0, cpu: -2}}
"""


@pytest.mark.long
@needs_pylibfranka
def test_states_of_silent_robot_were_stamped_as_new(start, client, tmp_path):
    """The loop continues for other arms and requests; the last state is not current."""
    ip = unused_address()
    file = tmp_path / "cell.yaml"
    file.write_text(ONE_REAL.format(ip=ip))
    with FciSim([ip], lockstep=True) as sim:
        node = start(file=file, remap=["__ns:=/silent"]).wait_for("is active")
        alone = client.listen(JointState, "/silent/left/joint_states")
        merged = client.listen(JointState, "/silent/joint_states")
        client.until(lambda: alone() and merged(), 20.0, "states")
        os.kill(sim.process.pid, signal.SIGSTOP)
        stopped = client.node.get_clock().now()
        try:
            for _ in range(3):  # libfranka times out meanwhile, as the driver reports
                before = client.diagnosis(node.name)[0]
                client.until(
                    lambda before=before: client.diagnosis(node.name)[0] is not before,
                    10.0,
                    "a running loop",
                )
            assert client.diagnosis(f"{node.name}/left")[1]["fault"] == "arm_stopped"
            for message in (alone(), merged()):
                later = Time.from_msg(message.header.stamp) - stopped
                assert later.nanoseconds < 0.1e9, "an old state was stamped as new"
        finally:
            os.kill(sim.process.pid, signal.SIGCONT)
        last, recovery = alone(), "/silent/left/error_recovery"
        client.until(lambda: client.call(Trigger, recovery).success, 20.0, "recovery")
        client.until(lambda: alone() is not last, 10.0, "new states")
        node.end()
