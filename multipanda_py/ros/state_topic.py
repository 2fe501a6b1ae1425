# SPDX-License-Identifier: Apache-2.0
"""A topic whose one message is sent over and over."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.publisher import Publisher

from multipanda_py.ros.qos import STATES


class StateTopic:
    """A publisher with the one message that it sends over and over, stamped anew.

    Args:
        node: Publishes.
        kind: Type of the message, which begins with a header.
        name: Of the topic.
        frame: Of the header.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str, frame: str = "") -> None:
        self.message = kind()
        self.message.header.frame_id = frame
        self._stamp = self.message.header.stamp
        self._publisher: Publisher = node.create_publisher(kind, name, STATES)

    def wanted(self) -> bool:
        """Whether anybody listens; otherwise nothing needs to be made."""
        return bool(self._publisher.get_subscription_count())

    def send(self, stamp: tuple[int, int]) -> None:
        """Send the message with the time of measurement, in seconds and nanoseconds."""
        self._stamp.sec, self._stamp.nanosec = stamp
        self._publisher.publish(self.message)
