# SPDX-License-Identifier: Apache-2.0
"""``/tf`` and ``/tf_static`` of the node, combined as in tf2."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
import pytest
from geometry_msgs.msg import PoseStamped
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

pytestmark = pytest.mark.node

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def se3(placement, quaternion):
    numbers = (
        placement.x,
        placement.y,
        placement.z,
        quaternion.x,
        quaternion.y,
        quaternion.z,
        quaternion.w,
    )
    return pin.XYZQUATToSE3(np.array(numbers))


@pytest.fixture
def tree(cell, client):
    """Transforms of one cycle, parent and transform by child, with the poses of that cycle."""
    poses, subscriptions = {}, []
    for arm in ("left", "right"):

        def keep(message, arm=arm):
            stamp = message.header.stamp
            poses[arm, stamp.sec, stamp.nanosec] = message

        topic = f"/{arm}/current_pose"
        subscriptions.append(client.node.create_subscription(PoseStamped, topic, keep, 10))
    fixed = client.listen(TFMessage, "/tf_static", LATCHED)
    moving = client.listen(TFMessage, "/tf")

    def both_of_one_cycle():
        if moving() is None or fixed() is None:
            return False
        stamp = moving().transforms[0].header.stamp
        return all((arm, stamp.sec, stamp.nanosec) in poses for arm in ("left", "right"))

    client.until(both_of_one_cycle, 20.0, "poses and transforms of one cycle")
    for one in subscriptions:
        client.node.destroy_subscription(one)
    stamp = moving().transforms[0].header.stamp
    found = {
        item.child_frame_id: (
            item.header.frame_id,
            se3(item.transform.translation, item.transform.rotation),
        )
        for item in (*fixed().transforms, *moving().transforms)
    }
    assert len(found) == len(fixed().transforms) + len(moving().transforms)
    return found, {arm: poses[arm, stamp.sec, stamp.nanosec] for arm in ("left", "right")}


def in_frame(tree, child, frame):
    parent, placement = tree[child]
    return placement if parent == frame else in_frame(tree, parent, frame) * placement


def test_transform_from_base_to_tool_equals_current_pose(tree):
    found, poses = tree
    for arm, message in poses.items():
        placement = in_frame(found, f"{arm}_fr3_hand_tcp", message.header.frame_id)
        pose = se3(message.pose.position, message.pose.orientation)
        assert abs(placement.homogeneous - pose.homogeneous).max() < 1e-9


def test_scene_objects_are_in_world_frame(tree):
    found, _ = tree
    assert found["table"][0] == found["box"][0] == "world"
    assert found["table"][1].translation == pytest.approx([0.62, 0.0, 0.2], abs=1e-12)
    # It stands on the table.
    assert found["box"][1].translation == pytest.approx([0.6, 0.0, 0.25], abs=2e-3)
    assert in_frame(found, "right_fr3_link0", "world").translation == pytest.approx([0, -0.3, 0])


def test_movable_object_has_pose_topic(tree, client):
    found, _ = tree
    message = client.newest(PoseStamped, "/objects/box/pose")
    assert message.header.frame_id == "world"
    placement = se3(message.pose.position, message.pose.orientation)
    assert placement.isApprox(found["box"][1], 1e-3)
    assert "/objects/table/pose" not in dict(client.node.get_topic_names_and_types())
