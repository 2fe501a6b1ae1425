# SPDX-License-Identifier: Apache-2.0
"""Topics of a compliant arm under the names of the ROS-Gazebo toolbox: joints and arrays."""

from __future__ import annotations

import math
import re

import numpy as np
import parameters_of
import pytest
from rclpy.qos import QoSProfile
from repository import ROOT
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64, Float64MultiArray
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.node, pytest.mark.clock]

SPACE, LAW = "/springs", "arm/actuator_commands_controller"
ARM = f"{SPACE}/arm"
JOINTS = ["joint_1", "joint_2"]
A, K = 8.9992, 0.0019
"""Elastic constants of the qbMoves in the URDF, equal for both motors."""


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    process = node_process(
        tmp_path_factory.mktemp("springs"),
        file=ROOT / "config" / "compliant" / "two_joints.yaml",
        remap=[f"__ns:={SPACE}"],
    )
    process.wait_for("is active")
    yield process
    process.end()


@pytest.fixture
def arm(node, client):
    """The arm with a newly activated actuator controllet."""
    arm = Arm(client)
    client.call(Trigger, f"{ARM}/error_recovery")
    client.switch(deactivate=[LAW], strictness=1, namespace=SPACE)
    arm.set_mode("configured")
    answer = client.switch([LAW], strictness=4, namespace=SPACE)
    assert answer.ok, answer.message
    return arm


class Arm:
    def __init__(self, client):
        self.client = client

    def set_mode(self, mode):
        return parameters_of.put(self.client, node=f"{SPACE}/{LAW}", mode=mode)

    def newest(self, kind, topic):
        return self.client.newest(kind, f"{ARM}/{topic}")

    def values(self, joint):
        """Return q, dq, both references, torque and stiffness of a joint."""
        return list(self.newest(Float64MultiArray, f"{joint}/link_state_array").data)

    def send(self, topic, data, until, what):
        kind = Float64MultiArray if isinstance(data, list) else Float64
        self.client.stream(f"{ARM}/{topic}", kind(data=data), until, what)


@pytest.mark.slow
def test_single_joint_commands_and_states(arm):
    """Mode 6 of the URDF: the motors track an equilibrium and a stiffness preset."""
    arm.send("joint_1/stiffness_preset", 0.5, lambda: arm.values("joint_1")[2] > 0.4, "a preset")
    arm.send("joint_1/equilibrium_position", 0.3, lambda: arm.values("joint_1")[2] > 0.75, "both")
    _, _, ref_1, ref_2, *_ = arm.values("joint_1")
    assert (ref_1, ref_2) == (pytest.approx(0.8, abs=1e-9), pytest.approx(-0.2, abs=1e-9))
    assert abs(arm.values("joint_2")[2]) < 0.3  # without a command
    arm.client.until(
        lambda: (
            abs(arm.newest(JointState, "joint_1/motor_1_state").velocity[0]) < 1e-3
            and abs(arm.newest(JointState, "joint_1/link_state").velocity[0]) < 1e-3
        ),
        what="rest",
    )
    *_, torque, stiffness = arm.values("joint_1")
    link = arm.newest(JointState, "joint_1/link_state")
    assert link.name == ["arm_two_joints_joint_1"]
    assert link.header.stamp.sec > 0
    motors = [arm.newest(JointState, f"joint_1/motor_{i}_state") for i in (1, 2)]
    lead = np.array([motor.position[0] for motor in motors]) - link.position[0]
    loads = K * np.sinh(A * lead)
    reported = [arm.newest(Float64, f"joint_1/torque_el{i}_state").data for i in (1, 2)]
    np.testing.assert_allclose(reported, loads, rtol=0.02, atol=1e-4)
    assert torque == pytest.approx(sum(loads), rel=0.05, abs=1e-3)
    assert stiffness == pytest.approx(A * K * np.cosh(A * lead).sum(), rel=0.02)
    assert [motor.effort[0] for motor in motors] == pytest.approx(loads.tolist(), abs=0.03)


@pytest.mark.clock
def test_array_commands_and_states_of_all_joints_at_cell_rate(arm):
    assert arm.set_mode("motor_pid").successful
    for number, values in ((1, [0.5, 0.35]), (2, [-0.1, 0.05])):
        arm.send(
            f"reference_{number}", values,
            lambda n=number, v=values: np.allclose(
                arm.newest(JointState, f"motor_{n}_state").position, v, atol=0.02
            ),
            f"motors {number}",
        )  # fmt: skip
    state = arm.newest(JointState, "robot_state")
    assert list(state.name) == [f"arm_two_joints_{joint}" for joint in JOINTS]
    assert len(state.position) == len(state.velocity) == len(state.effort) == 2
    stamps = []
    arm.client.node.create_subscription(
        JointState, f"{ARM}/robot_state",
        lambda state: stamps.append(state.header.stamp.sec + 1e-9 * state.header.stamp.nanosec),
        QoSProfile(depth=50),
    )  # fmt: skip
    arm.client.until(lambda: len(stamps) > 25, what="25 states")
    assert np.median(np.diff(stamps)) == pytest.approx(0.01, abs=3e-3)


@pytest.mark.long
def test_motor_and_external_torques_under_names_of_toolbox(arm):
    assert arm.set_mode("motor_torque").successful
    arm.send(
        "joint_2/torque_m1_command", 0.03,
        lambda: arm.newest(JointState, "joint_2/motor_1_state").effort[0] == pytest.approx(0.03),
        "a torque",
    )  # fmt: skip
    assert arm.set_mode("equilibrium").successful
    here = arm.values("joint_1")[0]
    arm.send(
        "joint_1/external_torque", 0.06,
        lambda: abs(arm.values("joint_1")[0] - here) > 0.02, "a deflection",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "data", "reason"),
    [
        ("joint_1/reference_1", 0.1, "reference_1: joint_1 is in mode 6 (equilibrium_pid), which"),
        ("joint_1/equilibrium_position", math.nan, "got [nan], allowed 1 finite numbers"),
        ("joint_2/stiffness_preset", 40.0, "stiffness_preset: joint_2: got 40, allowed"),
        ("equilibrium_position", [0.1] * 3, "got 3 numbers"),
    ],
)
def test_rejected_command_is_counted_and_reported(arm, node, topic, data, reason):
    def status():
        return arm.client.diagnosis(f"{node.name}/arm")[1]

    before, references = int(status()["rejected targets"]), arm.values("joint_1")[2:4]
    arm.send(
        topic, data,
        lambda: (
            int(status()["rejected targets"]) > before and reason in status()["last rejection"]
        ),
        reason,
    )  # fmt: skip
    # The tolerance covers motors that still settle; rejected commands are 0.1 rad or more.
    assert arm.values("joint_1")[2:4] == pytest.approx(references, abs=5e-3)


def test_interface_page_lists_actuator_topics(node, client):
    text = (ROOT / "doc" / "ros_interface.md").read_text(encoding="utf-8")
    section = text.split("## Arms on springs")[1].split("\n## ")[0]
    rows = re.findall(
        r"^\| `(<arm>/[\w/<>]+)` \| `(std_msgs/msg/\w+|sensor_msgs/msg/\w+)`", section, re.M
    )
    listed = {
        (f"{SPACE}/{name.replace('<arm>', 'arm').replace('<joint>', joint)}", kind)
        for name, kind in rows
        for joint in JOINTS
    }
    known = {f"{ARM}/{name}" for name in ("joint_states", "target_joint")}

    def offered():
        return {
            (name, kinds[0])
            for name, kinds in client.node.get_topic_names_and_types()
            if name.startswith(f"{ARM}/")
            and name not in known
            and re.search(r"/(joint_\d/|reference_|\w+_command|stiffness_preset|equilibrium_|"
                          r"external_torque|motor_\d|robot_state)", name)
        }  # fmt: skip

    client.until(lambda: listed <= offered(), what=f"all of {sorted(listed - offered())}")
    assert sorted(offered() - listed) == []
