# SPDX-License-Identifier: Apache-2.0
"""Move both tools along circles, with 1000 targets a second for each and the same stamp.

Start the cell first (make sim), then: .venv/bin/python examples/09_circles_at_1_khz.py
"""

from __future__ import annotations

import argparse
import math
import time

import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node

RATE, RADIUS, PERIOD = 1000.0, 0.06, 2.0  # Rate [Hz], radius [m], duration of a circle [s].
SLOW_START = 1.0  # Duration over which the radius grows from zero [s].


class Circles(Node):
    """Node that stores the tool poses of some arms, and publishes their targets."""

    def __init__(self, arms: list[str]) -> None:
        super().__init__("circles")
        self.measured: dict[str, PoseStamped] = {}
        self.targets: dict[str, PoseStamped] = {}
        self.centres: dict[str, tuple[float, float]] = {}
        self.outputs = {a: self.create_publisher(PoseStamped, f"{a}/target_pose", 1) for a in arms}
        for arm in arms:
            self.create_subscription(
                PoseStamped, f"{arm}/current_pose", lambda m, arm=arm: self.note(arm, m), 1
            )

    def note(self, arm: str, message: PoseStamped) -> None:
        """Store the newest pose; the first one is the centre, and the message to publish."""
        if arm not in self.targets:
            self.targets[arm] = message
            self.centres[arm] = message.pose.position.y, message.pose.position.z
        self.measured[arm] = message

    def send(self, t: float) -> None:
        """Publish the targets of a time, in the same messages with new numbers."""
        radius = RADIUS * min(t / SLOW_START, 1.0)
        phase = 2.0 * math.pi * t / PERIOD
        stamp = self.get_clock().now().to_msg()
        for sign, (arm, target) in zip((1.0, -1.0), sorted(self.targets.items())):
            y, z = self.centres[arm]
            target.header.stamp = stamp
            target.pose.position.y = y + sign * radius * math.sin(phase)
            target.pose.position.z = z + radius * math.cos(phase)
            self.outputs[arm].publish(target)

    def max_distance(self) -> float:
        """Return the largest distance of an arm from its target [m]."""
        return max(
            math.hypot(here.pose.position.y - to.pose.position.y,
                       here.pose.position.z - to.pose.position.z)
            for here, to in ((self.measured[arm], self.targets[arm]) for arm in self.targets)
        )  # fmt: skip


def main() -> None:
    """Run until interrupted, or for a given time; print the rate and the largest error."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arms", nargs="+", default=["left", "right"])
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    rclpy.init()
    node = Circles(options.arms)
    while len(node.targets) < len(options.arms):
        rclpy.spin_once(node, timeout_sec=0.1)
    begin, sent, max_error = time.monotonic(), 0, 0.0
    try:
        while (t := time.monotonic() - begin) < options.seconds:
            node.send(t)
            sent += 1
            if sent % 10 == 0:
                for _ in options.arms:
                    rclpy.spin_once(node, timeout_sec=0.0)
                max_error = max(max_error, node.max_distance())
            # A missed period is skipped: targets depend on the time, not on a count.
            due = begin + math.ceil((time.monotonic() - begin) * RATE) / RATE
            time.sleep(max(due - time.monotonic(), 0.0))
    except KeyboardInterrupt:
        pass
    print(f"{sent / t:.0f} targets/s for each arm, at most {1e3 * max_error:.1f} mm behind")


if __name__ == "__main__":
    main()
