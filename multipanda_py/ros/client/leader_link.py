# SPDX-License-Identifier: Apache-2.0
"""Node that connects leader arms in other cells with the followers of this cell.

Run by ``multipanda teleop --source leader`` as ``python -m multipanda_py.ros.client.leader_link
ARM PLACE ...``. Messages of leaders go to standard output as lines of JSON. Lines of JSON on
standard input are wrenches for the leaders. The process ends with standard input. The process that
moves the arms uses no ROS.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped, WrenchStamped
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Bool

from multipanda_py.realtime.system.child_process import lines
from multipanda_py.realtime.system.dds import announce_without_types
from multipanda_py.ros.client.device_listener import EVENT_QOS, STREAM_QOS, pose_numbers, report

POLL_PERIOD = 0.5
"""Period of the count of wrench subscribers [s]."""


def wrench_message(numbers: list[float]) -> WrenchStamped:
    """Return force, then torque, as a message in the leader's base axes, without a stamp.

    Clocks of two machines differ. The leader evaluates the arrival time instead.
    """
    message = WrenchStamped()
    force, torque = message.wrench.force, message.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = numbers
    return message


def pass_on(publishers: Mapping[str, Any], ended: threading.Event) -> None:
    """Publish the wrenches from standard input, and zero at its end. Thread: its own.

    Lines that became outdated while this process was suspended are dropped.
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


def main() -> int:
    """Forward messages in both directions until standard input ends."""
    namespaces = dict(zip(sys.argv[1::2], sys.argv[2::2]))
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(
        f"leader_link_{os.getpid()}", enable_rosout=False, start_parameter_services=False
    )
    received: tuple[tuple[str, Any, str, Callable[[Any], Any], Any], ...] = (
        ("current_pose", PoseStamped, "pose", pose_numbers, STREAM_QOS),
        ("clutch", Bool, "clutch", lambda message: message.data, EVENT_QOS),
        ("gripper", Bool, "gripper", lambda message: message.data, EVENT_QOS),
    )
    publishers: dict[str, Any] = {}
    for arm, path in namespaces.items():
        for topic, type_, kind, read, quality in received:
            take = partial(report, arm, kind, read)
            node.create_subscription(type_, f"{path}/{topic}", take, quality)
        publishers[arm] = publisher = node.create_publisher(
            WrenchStamped, f"{path}/target_feedback_wrench", STREAM_QOS
        )
        count = partial(
            report, arm, "takers", lambda name: name.get_subscription_count(), publisher
        )
        node.create_timer(POLL_PERIOD, count)
    ended = threading.Event()
    threading.Thread(target=pass_on, args=(publishers, ended), daemon=True).start()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    with contextlib.suppress(BrokenPipeError):
        while not ended.is_set():
            executor.spin_once(timeout_sec=0.1)
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
