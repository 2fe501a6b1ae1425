# SPDX-License-Identifier: Apache-2.0
"""A topic whose one message is sent over and over."""

from __future__ import annotations

from rclpy.node import Node
from rclpy.publisher import Publisher

from multipanda_py.ros.qos import STATES


class PlainTopic:
    """A publisher with the one message that it sends over and over.

    Args:
        node: Publishes.
        kind: Type of the message.
        name: Of the topic.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str) -> None:
        self.message = kind()
        self._publisher: Publisher = node.create_publisher(kind, name, STATES)

    def wanted(self) -> bool:
        """Whether anybody listens; otherwise nothing needs to be made."""
        return bool(self._publisher.get_subscription_count())

    def send(self) -> None:
        """Send the message."""
        self._publisher.publish(self.message)


class StateTopic:
    """The same with a stamp: for types that begin with a header.

    Args:
        node: Publishes.
        kind: Type of the message.
        name: Of the topic.
        frame: Of the header.

    Thread: executor.
    """

    def __init__(self, node: Node, kind: type, name: str, frame: str = "") -> None:
        self._topic = PlainTopic(node, kind, name)
        self.message, self.wanted = self._topic.message, self._topic.wanted
        self.message.header.frame_id = frame
        self._stamp = self.message.header.stamp

    def send(self, stamp: tuple[int, int]) -> None:
        """Send the message with the time of measurement, in seconds and nanoseconds."""
        self._stamp.sec, self._stamp.nanosec = stamp
        self._topic.send()
