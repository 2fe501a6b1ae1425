# SPDX-License-Identifier: Apache-2.0
"""Target topics for wrench, twist, stiffness and grasped object."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from controller_manager_msgs.srv import SwitchController
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from std_msgs.msg import Float64, Float64MultiArray

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    process = node_process(
        tmp_path_factory.mktemp("force"),
        file=Path(__file__).parent / "force_cell.yaml",
        remap=["__ns:=/force"],
    )
    process.wait_for("is active")
    yield process
    process.end()


def switch(client, *names):
    answer = client.call(
        SwitchController, "/force/controller_manager/switch_controller",
        activate_controllers=list(names), strictness=4,
    )  # fmt: skip
    assert answer.ok, answer.message


def height(message):
    return message.pose.position.z


def test_wrench_target_moves_arm_and_zero_returns_it(node, client):
    switch(client, "left/cartesian")
    get = client.listen(PoseStamped, "/force/left/current_pose")
    client.until(lambda: get() is not None)
    before = height(get())
    wrench = WrenchStamped()
    wrench.header.frame_id = "world"
    wrench.wrench.force.z = 20.0
    client.stream(
        "/force/left/target_wrench", wrench, lambda: height(get()) > before + 0.04, "push up"
    )
    wrench.wrench.force.z = 0.0
    client.stream(
        "/force/left/target_wrench", wrench, lambda: height(get()) < before + 0.01, "back"
    )


def test_stiffness_target_changes_deflection(node, client):
    switch(client, "left/cartesian")
    get = client.listen(PoseStamped, "/force/left/current_pose")
    client.until(lambda: get() is not None)
    before = height(get())
    wrench = WrenchStamped()
    wrench.wrench.force.z = 20.0
    client.stream(
        "/force/left/target_wrench", wrench, lambda: height(get()) > before + 0.04, "soft"
    )
    stiff = Float64MultiArray(data=[2000.0] * 3 + [50.0] * 3)
    client.stream(
        "/force/left/target_stiffness", stiff, lambda: height(get()) < before + 0.02, "stiff"
    )


def refused(client, node, who, topic, message, reason):
    def observed():
        status = client.diagnosis(f"{node.name}/{who}")
        return status is not None and reason in status[1].get("last rejection", "")

    client.stream(topic, message, observed, reason)


def test_invalid_targets_are_rejected_with_reason(node, client):
    switch(client, "left/cartesian")
    twist = TwistStamped()
    twist.twist.linear.x = float("nan")
    refused(client, node, "left", "/force/left/target_twist", twist, "finite")
    bad = Float64MultiArray(data=[-1.0] * 6)
    refused(client, node, "left", "/force/left/target_stiffness", bad, "positive semidefinite")
    wrench = WrenchStamped()
    wrench.wrench.force.z = 500.0
    refused(client, node, "left", "/force/left/target_wrench", wrench, "gate.force")


def test_coupled_object_tracks_pose_and_rejects_invalid_targets(node, client):
    switch(client, "pair")
    poses = {
        arm: client.listen(PoseStamped, f"/force/{arm}/current_pose") for arm in ("left", "right")
    }
    client.until(lambda: all(get() is not None for get in poses.values()))
    start = [height(get()) for get in poses.values()]
    left = poses["left"]().pose.position
    target = PoseStamped()
    target.header.frame_id = "world"
    target.pose.position.x, target.pose.position.z = left.x, left.z + 0.05
    target.pose.orientation.w = 1.0
    goal = np.add(start, 0.05)

    def there():
        return np.allclose([height(get()) for get in poses.values()], goal, atol=5e-3)

    client.stream("/force/pair/target_pose", target, there, "both arms 5 cm up")
    refused(
        client,
        node,
        "pair",
        "/force/pair/target_internal_force",
        Float64(data=-5.0),
        "internal_force",
    )
    target.pose.position.z += 1.0
    refused(client, node, "pair", "/force/pair/target_pose", target, "gate.position")
