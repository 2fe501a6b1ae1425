# SPDX-License-Identifier: Apache-2.0
"""Stream poses to both arms at 20 Hz, as a policy does, and print the tracking errors.

Start the cell first (make sim), then: .venv/bin/python examples/02_stream_poses.py
"""

from __future__ import annotations

import argparse
import math

import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node

RADIUS, RATE = 0.06, 20.0  # [m], [Hz]


class Circles(Node):
    """Node that moves each tool along a circle in the y-z plane, in opposite phase."""

    def __init__(self, arms: list[str]) -> None:
        super().__init__("circles")
        self.centre: dict[str, PoseStamped] = {}
        self.measured: dict[str, PoseStamped] = {}
        self.outputs = {a: self.create_publisher(PoseStamped, f"{a}/target_pose", 1) for a in arms}
        for arm in arms:
            self.create_subscription(
                PoseStamped, f"{arm}/current_pose", lambda m, arm=arm: self.note(arm, m), 1
            )
        self.begin = self.get_clock().now()
        self.create_timer(1.0 / RATE, self.step)

    def note(self, arm: str, message: PoseStamped) -> None:
        """Store the newest measured pose, and the first one as the start of the circle."""
        self.centre.setdefault(arm, message)
        self.measured[arm] = message

    def step(self) -> None:
        """Publish one target per arm."""
        phase = 2.0 * math.pi * 0.2 * (self.get_clock().now() - self.begin).nanoseconds * 1e-9
        for sign, (arm, output) in zip((1.0, -1.0), self.outputs.items()):
            if arm not in self.centre:
                continue
            start = self.centre[arm].pose
            target = PoseStamped()
            target.header.stamp = self.get_clock().now().to_msg()
            target.header.frame_id = self.centre[arm].header.frame_id
            target.pose.orientation = start.orientation
            target.pose.position.x = start.position.x
            target.pose.position.y = start.position.y + sign * RADIUS * math.sin(phase)
            target.pose.position.z = start.position.z + RADIUS * (1.0 - math.cos(phase))
            output.publish(target)
            here = self.measured[arm].pose.position
            goal = target.pose.position
            error = math.dist((here.x, here.y, here.z), (goal.x, goal.y, goal.z))
            self.get_logger().info(
                f"{arm}: {error * 1e3:.1f} mm behind its target", throttle_duration_sec=1.0
            )


def main() -> None:
    """Run until interrupted, or for a given time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arms", nargs="+", default=["left", "right"])
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    rclpy.init()
    node = Circles(options.arms)
    end = node.get_clock().now().nanoseconds * 1e-9 + options.seconds
    try:
        while node.get_clock().now().nanoseconds * 1e-9 < end:
            rclpy.spin_once(node, timeout_sec=0.1)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
