# SPDX-License-Identifier: Apache-2.0
"""Teleoperate a tool at 30 Hz with a tracked hand and a clutch.

While the clutch is closed, the tool follows the motion of the hand. Both motions count from the
poses at the time of closing. While it is open, the tool rests and the hand can move back. A
tracker publishes hand/pose (PoseStamped) and hand/clutch (Bool). --scripted needs no tracker.

Start the cell first (make sim), then:
.venv/bin/python examples/08_teleoperate_with_a_clutch.py --arm left --scripted
"""

from __future__ import annotations

import argparse
import math
from typing import NamedTuple

import rclpy
from geometry_msgs.msg import Pose, PoseStamped, Quaternion
from rclpy.node import Node
from std_msgs.msg import Bool

RATE, SCALE = 30.0, 0.5  # Rate [Hz], and motion of the tool per motion of the hand [m/m].


class Hand(NamedTuple):
    """Pose of the hand, in axes parallel to the base of the arm, and state of the clutch."""

    pose: Pose
    is_engaged: bool


class Clutch:
    """Conversion of motions of the hand to those of a tool."""

    def __init__(self, tool: Pose) -> None:
        self.target, self.hand_start, self.tool_start = tool, None, tool

    def move(self, hand: Hand) -> Pose:
        """Return the target pose of the tool."""
        if not hand.is_engaged:
            self.hand_start = None
            return self.target  # The stream continues with the same pose, so the tool rests.
        if self.hand_start is None:
            self.hand_start, self.tool_start = hand.pose, self.target
        now, then, start = hand.pose, self.hand_start, self.tool_start
        target = Pose()
        for axis in "xyz":
            displacement = getattr(now.position, axis) - getattr(then.position, axis)
            setattr(target.position, axis, getattr(start.position, axis) + SCALE * displacement)
        rotation = product(now.orientation, inverse(then.orientation))
        target.orientation = product(rotation, start.orientation)
        self.target = target
        return target


def product(a: Quaternion, b: Quaternion) -> Quaternion:
    """Return the rotation by b and then by a."""
    return Quaternion(
        w=a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
        x=a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
        y=a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
        z=a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
    )


def inverse(q: Quaternion) -> Quaternion:
    """Return the inverse rotation."""
    return Quaternion(w=q.w, x=-q.x, y=-q.y, z=-q.z)


def scripted(t: float) -> Hand:
    """Return a hand that rises by 10 cm and rotates while engaged, and returns while not engaged.

    It repeats this twice, in 4 s each. The tool rises by 5 cm and rotates by 0.2 rad each time.
    """
    cycle_time = min(t, 8.0 - 1e-9) % 4.0
    fraction = 0.5 * (1.0 - math.cos(math.pi * min(cycle_time / 2.0, 2.0 - cycle_time / 2.0)))
    pose = Pose()
    pose.position.z = 0.1 * fraction
    pose.orientation.z, pose.orientation.w = math.sin(0.1 * fraction), math.cos(0.1 * fraction)
    return Hand(pose, t < 8.0 and cycle_time < 2.0)


class Teleoperation(Node):
    """Node that publishes a target 30 times a second."""

    def __init__(self, arm: str, is_scripted: bool) -> None:
        super().__init__("teleoperation")
        self.is_scripted, self.begin = is_scripted, 0.0
        self.clutch: Clutch | None = None
        self.hand = Hand(Pose(), False)
        self.target = PoseStamped()
        self.output = self.create_publisher(PoseStamped, f"{arm}/target_pose", 1)
        self.create_subscription(PoseStamped, f"{arm}/current_pose", self.on_tool, 1)
        self.create_subscription(
            PoseStamped, "hand/pose", lambda m: self.store(self.hand._replace(pose=m.pose)), 1
        )
        self.create_subscription(
            Bool, "hand/clutch", lambda m: self.store(self.hand._replace(is_engaged=m.data)), 1
        )
        self.create_timer(1.0 / RATE, self.step)

    @property
    def seconds(self) -> float:
        """Time since the first pose of the tool [s]."""
        return self.now() - self.begin if self.clutch else 0.0

    def now(self) -> float:
        """Return the time of the node's clock [s]."""
        return self.get_clock().now().nanoseconds * 1e-9

    def store(self, hand: Hand) -> None:
        """Store the newest state of the hand."""
        self.hand = hand

    def on_tool(self, message: PoseStamped) -> None:
        """Start at the first measured pose of the tool."""
        if self.clutch is None:
            self.clutch, self.begin = Clutch(message.pose), self.now()
            self.target.header.frame_id = message.header.frame_id

    def step(self) -> None:
        """Publish the target pose of the tool."""
        if self.clutch is None:
            return
        hand = scripted(self.seconds) if self.is_scripted else self.hand
        self.target.pose = self.clutch.move(hand)
        self.target.header.stamp = self.get_clock().now().to_msg()
        self.output.publish(self.target)


def main() -> None:
    """Run until interrupted, or for a given time."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arm", default="left")
    parser.add_argument("--scripted", action="store_true", help="simulate the hand")
    parser.add_argument("--seconds", type=float, default=math.inf)
    options = parser.parse_args()
    rclpy.init()
    node = Teleoperation(options.arm, options.scripted)
    try:
        while node.seconds < options.seconds:
            rclpy.spin_once(node, timeout_sec=0.1)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
