# SPDX-License-Identifier: Apache-2.0
"""Node that writes messages of teleoperation devices to standard output.

Run by ``multipanda teleop --source ros`` as ``python -m multipanda_py.ros.client.device_listener
NAMESPACE ARM ...``. Poses, twists, clutch and gripper messages become lines of JSON, until
standard input ends. The process that moves the arms uses no ROS.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped, Twist, TwistStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Bool

from multipanda_py.realtime.system.dds import announce_without_types

STREAM_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""QoS profile of pose and twist streams: a lost message is not sent again."""
POLL_PERIOD = 0.1
"""Period of the count of publishers [s]."""
EVENT_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""QoS profile of clutch and gripper messages, each of which must arrive."""


def pose_numbers(message: PoseStamped) -> list[float]:
    """Return position, then quaternion x y z w, seven numbers."""
    p, q = message.pose.position, message.pose.orientation
    return [p.x, p.y, p.z, q.x, q.y, q.z, q.w]


def twist_numbers(message: Twist | TwistStamped) -> list[float]:
    """Return linear, then angular velocity, six numbers."""
    twist = message.twist if isinstance(message, TwistStamped) else message
    v, w = twist.linear, twist.angular
    return [v.x, v.y, v.z, w.x, w.y, w.z]


SUBSCRIPTIONS: tuple[tuple[str, Any, str, Callable[[Any], Any], QoSProfile], ...] = (
    ("pose", PoseStamped, "pose", pose_numbers, STREAM_QOS),
    ("twist", TwistStamped, "twist", twist_numbers, STREAM_QOS),
    ("cmd_vel", Twist, "twist", twist_numbers, STREAM_QOS),
    ("clutch", Bool, "clutch", lambda message: message.data, EVENT_QOS),
    ("gripper", Bool, "gripper", lambda message: message.data, EVENT_QOS),
)
"""Topics of an arm: name, type, kind of the line, conversion, QoS profile."""


def report(arm: str, kind: str, read: Callable[[Any], Any], message: Any) -> None:
    """Write a message as a line, with its arrival time on this machine, CLOCK_MONOTONIC [s]."""
    response = {"arm": arm, "kind": kind, "value": read(message), "time": time.monotonic()}
    sys.stdout.write(f"{json.dumps(response)}\n")
    sys.stdout.flush()


class Crowds:
    """Detector of pose and twist topics with several publishers, whose motions would mix.

    A line is written for an arm when such a conflict starts or ends.

    Args:
        node: Node of this process.
        root: Namespace of the topics.
        arms: Names of the arms.
    """

    def __init__(self, node: Node, root: str, arms: Sequence[str]) -> None:
        self._node, self._reported = node, dict.fromkeys(arms, "")
        streams = [topic for topic, _, kind, _, _ in SUBSCRIPTIONS if kind in ("pose", "twist")]
        self._topics = {arm: [f"{root}/{arm}/{topic}" for topic in streams] for arm in arms}

    def update(self) -> None:
        """Count publishers, and write changes."""
        for arm, topics in self._topics.items():
            counts = {topic: self._node.count_publishers(topic) for topic in topics}
            crowd = [
                f"{topic} has {count} publishers" for topic, count in counts.items() if count > 1
            ]
            now = crowd[0] if crowd else ""
            if now != self._reported[arm]:
                self._reported[arm] = now
                report(arm, "crowd", str, now)


def main() -> int:
    """Write messages until standard input ends or the reader has exited."""
    namespace, *arms = sys.argv[1:]
    root = f"/{namespace.strip('/')}".rstrip("/")
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(
        f"hand_listener_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )
    for arm in arms:
        for topic, type_, kind, read, quality in SUBSCRIPTIONS:
            take = partial(report, arm, kind, read)
            node.create_subscription(type_, f"{root}/{arm}/{topic}", take, quality)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    crowds, next_poll = Crowds(node, root, arms), 0.0
    with contextlib.suppress(BrokenPipeError):
        while not select.select([0], [], [], 0.0)[0] or os.read(0, 4096):
            executor.spin_once(timeout_sec=POLL_PERIOD)
            if time.monotonic() >= next_poll:
                crowds.update()
                next_poll = time.monotonic() + POLL_PERIOD
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
