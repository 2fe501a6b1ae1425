# SPDX-License-Identifier: Apache-2.0
"""Stream of pose and joint targets for both arms at 100 Hz."""

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
RATE = 100.0  # of targets [Hz]
AMPLITUDE, WAVE_PERIOD = 0.02, 3.0  # of the sine in the targets [m or rad], [s]


def main() -> None:
    """Publish targets until a signal ends the process."""
    # With the handlers of rclpy, a publication after the signal would raise an exception.
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
    started = due = time.monotonic()
    while True:
        wave = math.sin(2.0 * math.pi * (due - started) / WAVE_PERIOD)
        stamp = node.get_clock().now().to_msg()
        for name, message in first.items():
            message.header.stamp = stamp
            if name in heights:
                message.pose.position.z = heights[name] + AMPLITUDE * wave
            else:  # only the wrist: the tool stays near the target of its position
                message.position[5] = angles[name] + AMPLITUDE * wave
                message.velocity = message.effort = []
            outputs[name].publish(message)
        due += 1.0 / RATE
        time.sleep(max(due - time.monotonic(), 0.0))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
