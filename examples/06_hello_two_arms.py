# SPDX-License-Identifier: Apache-2.0
"""Lift the tools of two arms by 5 cm, in five lines.

Start a cell with arms left and right first (make sim), then:
.venv/bin/python examples/06_hello_two_arms.py
"""

from __future__ import annotations

import time

import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.wait_for_message import wait_for_message

rclpy.init()
node = rclpy.create_node("hello")

for arm in ("left", "right"):
    publisher = node.create_publisher(PoseStamped, f"{arm}/target_pose", 1)
    while not publisher.get_subscription_count():  # Wait until the node is discovered.
        time.sleep(0.01)
    _, target = wait_for_message(PoseStamped, node, f"{arm}/current_pose")
    target.pose.position.z += 0.05
    publisher.publish(target)

time.sleep(1.0)  # The messages need some time before this process may end.
