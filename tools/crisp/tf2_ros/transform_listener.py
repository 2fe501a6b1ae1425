# SPDX-License-Identifier: Apache-2.0
"""Subscriptions that fill a buffer."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from tf2_msgs.msg import TFMessage

from tf2_ros.buffer import Buffer


class TransformListener:
    """Subscriptions of a node to both topics of transforms.

    Args:
        buffer: Buffer that stores the transforms.
        node: Subscribing node, which has to be spun.
    """

    def __init__(self, buffer: Buffer, node: Node) -> None:
        def store(message: TFMessage) -> None:
            for transform in message.transforms:
                buffer.set_transform(transform)

        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        node.create_subscription(TFMessage, "/tf", store, 100)
        node.create_subscription(TFMessage, "/tf_static", store, latched)
