# SPDX-License-Identifier: Apache-2.0
"""Target poses of the demo client on the way of its virtual point."""

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.context import Context

from multipanda_py.ros.client.motion_generator import PoseStream

pytestmark = pytest.mark.inline


@pytest.fixture
def node():
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("demo", context=context)
    yield node
    node.destroy_node()
    rclpy.try_shutdown(context=context)


def test_pose_is_start_plus_displacement_and_fraction_of_shift(node):
    start = PoseStamped()
    start.pose.position.x, start.pose.position.y, start.pose.position.z = 0.3, -0.1, 0.5
    stream = PoseStream(node, "left/target_pose", start, np.array([0.0, 0.2, 0.1]))
    x = stream.send(np.array([0.05, 0.02, -0.04]), 0.5, 12_000_000_034)
    assert x == pytest.approx(0.35)
    assert start.pose.position.y == pytest.approx(0.02)
    assert start.pose.position.z == pytest.approx(0.51)
    assert (start.header.stamp.sec, start.header.stamp.nanosec) == (12, 34)
