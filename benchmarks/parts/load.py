# SPDX-License-Identifier: Apache-2.0
"""Load for the node: one PoseStamped per arm at 1 kHz, until standard input closes.

Started by ``paced.py`` as ``load.py left right``. Republishes the measured poses, so the
arms stay where they are while every message passes all checks.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import time

import rclpy
from geometry_msgs.msg import PoseStamped


def main() -> int:
    """Publish until told to stop, then print how many messages went out per second."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("arms", nargs="+", help="names of arms of a node that runs")
    arms = parser.parse_args().arms
    rclpy.init()
    node = rclpy.create_node("benchmark_load", enable_rosout=False, start_parameter_services=False)
    newest: dict[str, PoseStamped] = {}
    for arm in arms:
        node.create_subscription(
            PoseStamped, f"{arm}/current_pose", lambda m, arm=arm: newest.setdefault(arm, m), 1
        )
    while len(newest) < len(arms):
        rclpy.spin_once(node, timeout_sec=1.0)
    publishers = [
        (node.create_publisher(PoseStamped, f"{a}/target_pose", 1), newest[a]) for a in arms
    ]
    for _, message in publishers:
        message.header.stamp.sec = message.header.stamp.nanosec = 0
    os.write(1, b"ready\n")
    period, count, begin = 1_000_000, 0, time.monotonic_ns()
    deadline = begin
    while True:
        for publisher, message in publishers:
            publisher.publish(message)
        count += 1
        if count % 100 == 0 and select.select([sys.stdin], [], [], 0)[0]:
            break
        deadline += period
        wait = deadline - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait * 1e-9)
    rate = count / ((time.monotonic_ns() - begin) * 1e-9)
    os.write(1, f"{rate:.1f}\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
