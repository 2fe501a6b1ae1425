# SPDX-License-Identifier: Apache-2.0
"""Process that passes teleoperation inputs from ROS topics to a program without ROS.

``multipanda teleop`` runs it:

- With ``--source ros`` as ``python -m multipanda_py.ros.client.teleoperation_link devices
  NAMESPACE ARM ...``. It writes messages of devices to standard output.
- With ``--source leader`` as ``... leaders ARM NAMESPACE ...``. It writes the poses of leader arms
  of other cells to standard output. It reads wrenches from standard input, and publishes them to
  the leader arms.

All lines are JSON. The process ends when standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped, Twist, TwistStamped, WrenchStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Bool

from multipanda_py.realtime.system.child_process import input_is_open, lines
from multipanda_py.realtime.system.dds import announce_without_types

STREAM_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""QoS profile of pose, twist and wrench streams: a lost message is not sent again."""
EVENT_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
"""QoS profile of clutch and gripper messages, each of which must arrive."""
PUBLISHER_COUNT_PERIOD = 0.1
"""Period of the count of publishers of devices [s]."""
SUBSCRIBER_COUNT_PERIOD = 0.5
"""Period of the count of wrench subscribers at leaders [s]."""
Subscriptions = tuple[tuple[str, Any, str, Callable[[Any], Any], QoSProfile], ...]
"""Topics of an arm: name, message type, ``kind`` in the written line, conversion, QoS profile."""


def pose_numbers(message: PoseStamped) -> list[float]:
    """Return position [m], then quaternion x y z w, seven numbers."""
    p, q = message.pose.position, message.pose.orientation
    return [p.x, p.y, p.z, q.x, q.y, q.z, q.w]


def twist_numbers(message: Twist | TwistStamped) -> list[float]:
    """Return linear [m/s], then angular velocity [rad/s], six numbers."""
    twist = message.twist if isinstance(message, TwistStamped) else message
    v, w = twist.linear, twist.angular
    return [v.x, v.y, v.z, w.x, w.y, w.z]


def wrench_message(numbers: list[float]) -> WrenchStamped:
    """Return an unstamped wrench from force [N], then torque [Nm], in the base of the leader."""
    # The leader uses the arrival time, because the clocks of two machines may differ.
    message = WrenchStamped()
    force, torque = message.wrench.force, message.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = numbers
    return message


EVENT_SUBSCRIPTIONS: Subscriptions = (
    ("clutch", Bool, "clutch", lambda message: message.data, EVENT_QOS),
    ("gripper", Bool, "gripper", lambda message: message.data, EVENT_QOS),
)
DEVICE_SUBSCRIPTIONS: Subscriptions = (
    ("pose", PoseStamped, "pose", pose_numbers, STREAM_QOS),
    ("twist", TwistStamped, "twist", twist_numbers, STREAM_QOS),
    ("cmd_vel", Twist, "twist", twist_numbers, STREAM_QOS),
    *EVENT_SUBSCRIPTIONS,
)
LEADER_SUBSCRIPTIONS: Subscriptions = (
    ("current_pose", PoseStamped, "pose", pose_numbers, STREAM_QOS),
    *EVENT_SUBSCRIPTIONS,
)


def report(arm: str, kind: str, read: Callable[[Any], Any], message: Any) -> None:
    """Write a message and its arrival time, CLOCK_MONOTONIC [s], as a line of JSON.

    Args:
        arm: Name of the arm.
        kind: Kind of the message, such as ``pose``.
        read: Function that converts the message to numbers or text.
        message: Message, or another object that ``read`` converts.
    """
    response = {"arm": arm, "kind": kind, "value": read(message), "time": time.monotonic()}
    sys.stdout.write(f"{json.dumps(response)}\n")
    sys.stdout.flush()


class PublisherConflicts:
    """Detector of pose and twist topics with several publishers, whose motions would mix."""

    def __init__(self, node: Node, root: str, arms: Sequence[str]) -> None:
        self._node, self._reported = node, dict.fromkeys(arms, "")
        streams = [name for name, _, kind, *_ in DEVICE_SUBSCRIPTIONS if kind in ("pose", "twist")]
        self._topics = {arm: [f"{root}/{arm}/{topic}" for topic in streams] for arm in arms}

    def update(self) -> None:
        """Count publishers, and write a line for each arm whose conflict starts or ends."""
        for arm, topics in self._topics.items():
            counts = {topic: self._node.count_publishers(topic) for topic in topics}
            crowd = [
                f"{topic} has {count} publishers" for topic, count in counts.items() if count > 1
            ]
            now = crowd[0] if crowd else ""
            if now != self._reported[arm]:
                self._reported[arm] = now
                report(arm, "crowd", str, now)


def _create_node(name: str) -> Node:
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    return rclpy.create_node(
        f"{name}_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )


def _subscribe(node: Node, arm: str, path: str, subscriptions: Subscriptions) -> None:
    for topic, type_, kind, read, quality in subscriptions:
        take = partial(report, arm, kind, read)
        node.create_subscription(type_, f"{path}/{topic}", take, quality)


def listen_to_devices(namespace: str, *arms: str) -> None:
    """Write messages of devices to standard output until the input ends or the reader exits."""
    root = f"/{namespace.strip('/')}".rstrip("/")
    node = _create_node("hand_listener")
    for arm in arms:
        _subscribe(node, arm, f"{root}/{arm}", DEVICE_SUBSCRIPTIONS)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    conflicts, next_poll = PublisherConflicts(node, root, arms), 0.0
    with contextlib.suppress(BrokenPipeError):
        while input_is_open():
            executor.spin_once(timeout_sec=PUBLISHER_COUNT_PERIOD)
            if time.monotonic() >= next_poll:
                conflicts.update()
                next_poll = time.monotonic() + PUBLISHER_COUNT_PERIOD
    node.destroy_node()


def publish_wrenches(publishers: Mapping[str, Any], ended: threading.Event) -> None:
    """Publish the wrenches from standard input. At its end, publish zero wrenches.

    A line is dropped if its time ``until`` has passed.

    Args:
        publishers: Publishers of the wrenches, by arm.
        ended: Event that is set when this function ends.

    Thread: a separate one.
    """
    try:
        for line in lines():
            message = json.loads(line)
            if time.monotonic() < message["until"]:
                publishers[message["arm"]].publish(wrench_message(message["wrench"]))
        for publisher in publishers.values():
            publisher.publish(wrench_message([0.0] * 6))
    finally:
        ended.set()


def connect_leaders(*pairs: str) -> None:
    """Pass poses of leaders to standard output, and wrenches from standard input to leaders.

    Args:
        pairs: Names of followers, each followed by the namespace of its leader.
    """
    node = _create_node("leader_link")
    publishers: dict[str, Any] = {}
    for arm, path in zip(pairs[::2], pairs[1::2]):
        _subscribe(node, arm, path, LEADER_SUBSCRIPTIONS)
        publishers[arm] = publisher = node.create_publisher(
            WrenchStamped, f"{path}/target_feedback_wrench", STREAM_QOS
        )
        count = partial(
            report, arm, "takers", lambda name: name.get_subscription_count(), publisher
        )
        node.create_timer(SUBSCRIBER_COUNT_PERIOD, count)
    ended = threading.Event()
    threading.Thread(target=publish_wrenches, args=(publishers, ended), daemon=True).start()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    with contextlib.suppress(BrokenPipeError):
        while not ended.is_set():
            executor.spin_once(timeout_sec=0.1)
    node.destroy_node()


def main() -> int:
    """Run :func:`listen_to_devices` or :func:`connect_leaders`, as the first argument requests."""
    source, *arguments = sys.argv[1:]
    run = listen_to_devices if source == "devices" else connect_leaders
    run(*arguments)
    rclpy.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
