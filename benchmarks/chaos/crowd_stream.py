# SPDX-License-Identifier: Apache-2.0
"""A policy for both arms: poses and postures at 100 Hz, of which laws take what they can."""

from __future__ import annotations

import contextlib
import math
import time
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState

ARMS = ("left", "right")
RATE, SWING, TURN = 100.0, 0.02, 3.0  # [Hz], [m], [s]


def main() -> None:
    """Go on until killed."""
    # Ended by a signal: with handlers of its own the next message would end in a trace.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("crowd_stream")
    first: dict[str, Any] = {}
    outputs = {}
    for arm in ARMS:
        for kind, received, reported in (
            (PoseStamped, "current_pose", "target_pose"),
            (JointState, "joint_states", "target_joint"),
        ):
            name = f"/{arm}/{reported}"
            outputs[name] = node.create_publisher(kind, name, 1)
            node.create_subscription(
                kind, f"/{arm}/{received}", lambda m, name=name: first.setdefault(name, m), 1
            )
    while len(first) < len(outputs):
        rclpy.spin_once(node, timeout_sec=0.1)
    heights = {n: m.pose.position.z for n, m in first.items() if isinstance(m, PoseStamped)}
    angles = {n: m.position[5] for n, m in first.items() if isinstance(m, JointState)}
    begun = due = time.monotonic()
    while True:
        wave = math.sin(2.0 * math.pi * (due - begun) / TURN)
        stamp = node.get_clock().now().to_msg()
        for name, message in first.items():
            message.header.stamp = stamp
            if name in heights:
                message.pose.position.z = heights[name] + SWING * wave
            else:  # the wrist, so that the tool stays where poses want it, nearly
                message.position[5] = angles[name] + SWING * wave
                message.velocity = message.effort = []
            outputs[name].publish(message)
        due += 1.0 / RATE
        time.sleep(max(due - time.monotonic(), 0.0))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
