# SPDX-License-Identifier: Apache-2.0
"""Test program that streams target poses at 1 kHz to the arms of a running node.

Usage::

    python -m multipanda_py.ros.client.motion_generator NAME=Y [NAME=Y ...]
        [--object CONTROLLET] [--each] [--record FILE]

NAME is an arm. Y is the y coordinate of its base in the world [m]; the base must not be rotated.

All targets follow a virtual point, which starts in the middle between the grippers. It visits
goals among virtual moving obstacles (:mod:`multipanda_py.planning.trajectory.circular_field`).

- By default, the first arm keeps 15 cm to the left of the point, and the second arm 15 cm to the
  right.
- With ``--object``, the target is the pose of the object that the arms of CONTROLLET hold.
- With ``--each``, every arm starts at its initial pose and copies the displacement of the point.

The program writes ``ready`` when it publishes, and ends when standard input ends. It then writes
the number of messages per topic and the duration as JSON. FILE has one row for each message to
the first arm or to the object, (n, 2): time of CLOCK_MONOTONIC [s] and position along x [m].
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from itertools import cycle

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

from multipanda_py.planning.trajectory.circular_field import CircularField, FieldObstacle
from multipanda_py.planning.trajectory.quintic import rest_to_rest
from multipanda_py.realtime.system.child_process import input_is_open
from multipanda_py.realtime.system.dds import announce_without_types
from multipanda_py.state import Vector

RATE = 1000
"""Rate of targets per arm [Hz]."""
ARM_OFFSET = 0.15
"""Offset of the first arm from the moving point along y [m]; negated for the second arm."""
APPROACH_TIME = 2.0
"""Time in which the arms move to their offsets [s]."""
RELATIVE_GOALS = (
    (0.08, 0.06, -0.06),
    (0.12, -0.06, -0.14),
    (0.0, -0.05, -0.16),
    (0.04, 0.05, -0.02),
)
"""Goals of the moving point, relative to its start [m]."""
GOAL_TOLERANCE = 0.01
"""Distance from a goal at which the next one is selected [m]."""
_OBSTACLES = (
    ((0.10, 0.00, -0.10), (0.0, 0.03, 0.0), 0.03),
    ((0.02, 0.00, -0.09), (0.02, 0.0, 0.0), 0.02),
    ((0.05, -0.05, -0.14), (0.0, 0.0, 0.03), 0.02),
)
"""Obstacles: start relative to that of the point [m], velocity [m/s], radius [m]."""
_OBSTACLE_PERIOD = 4.0  # Time after which the velocities of the obstacles change sign [s].
_MESSAGES_PER_CHECK = 50  # Number of messages between two checks of standard input.


class PoseStream:
    """Publisher of a target pose that follows the virtual point of this module.

    Args:
        start: Message with the initial pose, which :meth:`send` changes and publishes.
        shift: Offset that :meth:`send` adds, multiplied by its ``fraction``, (3,) [m].
    """

    def __init__(self, node: Node, topic: str, start: PoseStamped, shift: Vector) -> None:
        self._publisher = node.create_publisher(PoseStamped, topic, 1)
        self._message, self._shift = start, shift
        p = start.pose.position
        self._start = np.array([p.x, p.y, p.z])

    def send(self, moved: Vector, fraction: float, stamp_ns: int) -> float:
        """Publish the pose and return its position along x [m].

        Args:
            moved: Displacement of the point since its start, (3,) [m].
            fraction: Fraction of ``shift`` that is applied, 0 to 1.
            stamp_ns: Time stamp of the message [ns].
        """
        message = self._message
        position = message.pose.position
        position.x, position.y, position.z = (
            self._start + moved + fraction * self._shift
        ).tolist()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 1_000_000_000)
        self._publisher.publish(message)
        return float(position.x)


def measured_poses(node: Node, arms: list[str]) -> dict[str, PoseStamped]:
    """Wait for a pose from every arm, and return the first one of each, by arm."""
    newest: dict[str, PoseStamped] = {}
    listening = [
        node.create_subscription(
            PoseStamped, f"{arm}/current_pose", lambda m, arm=arm: newest.setdefault(arm, m), 1
        )
        for arm in arms
    ]
    while len(newest) < len(arms):
        rclpy.spin_once(node, timeout_sec=1.0)
    for subscription in listening:
        node.destroy_subscription(subscription)
    return newest


def make_streams(
    node: Node, bases: dict[str, float], controllet: str, each: bool
) -> list[PoseStream]:
    """Return one stream per arm, or a single one for an object that the arms hold.

    Args:
        node: Node that publishes.
        bases: Position of each arm's base along y in the world, by arm [m].
        controllet: Name of the controllet that holds the object; empty without an object.
        each: True if each arm copies the displacement of the point from its initial pose. False
            if the first two arms keep to the left and right of the point.
    """
    poses = measured_poses(node, list(bases))
    hands = {arm: pose.pose.position.y + bases[arm] for arm, pose in poses.items()}
    middle = float(np.mean(list(hands.values())))
    if controllet:
        held = PoseStamped()
        held.header.frame_id = "world"
        for axis in "xz":
            mean = float(np.mean([getattr(p.pose.position, axis) for p in poses.values()]))
            setattr(held.pose.position, axis, mean)
        held.pose.position.y = middle
        return [PoseStream(node, f"{controllet}/target_pose", held, np.zeros(3))]
    sides = {} if each else dict(zip(bases, (ARM_OFFSET, -ARM_OFFSET)))
    return [
        PoseStream(
            node, f"{arm}/target_pose", pose,
            np.array([0.0, middle + sides[arm] - hands[arm] if arm in sides else 0.0, 0.0]),
        )
        for arm, pose in poses.items()
    ]  # fmt: skip


def publish(streams: list[PoseStream]) -> list[tuple[float, float]]:
    """Publish all streams until standard input ends.

    Returns:
        Time, CLOCK_MONOTONIC [s], and position along x [m] of each message of the first stream.
    """
    field = CircularField(
        np.zeros(3),
        [
            FieldObstacle(np.array(at), np.array(v), r, np.array([0.0, 0.0, 1.0]))
            for at, v, r in _OBSTACLES
        ],
    )
    goals = cycle(np.array(goal) for goal in RELATIVE_GOALS)
    goal, period = next(goals), 1.0 / RATE
    sent: list[tuple[float, float]] = []
    deadline = time.monotonic()
    os.write(1, b"ready\n")
    while len(sent) % _MESSAGES_PER_CHECK or input_is_open():
        now = len(sent) * period
        if sent and len(sent) % round(_OBSTACLE_PERIOD * RATE) == 0:
            for obstacle in field.obstacles:
                obstacle.velocity *= -1.0
        moved = field.step(goal, period)
        if float(np.abs(goal - moved).max()) < GOAL_TOLERANCE:
            goal = next(goals)
        fraction, stamp, at = (
            rest_to_rest(min(1.0, now / APPROACH_TIME)),
            time.time_ns(),
            time.monotonic(),
        )
        sent.append((at, [stream.send(moved, fraction, stamp) for stream in streams][0]))  # noqa: RUF015
        deadline += period
        time.sleep(max(0.0, deadline - time.monotonic()))
    return sent


def main() -> int:
    """Publish target poses until standard input ends, and report their number and duration."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "arms",
        nargs="+",
        metavar="NAME=Y",
        help="name of an arm, position of its base along y [m]",
    )
    parser.add_argument(
        "--object", default="", metavar="CONTROLLET", help="controllet whose arms hold an object"
    )
    parser.add_argument(
        "--each", action="store_true", help="each arm follows from its initial pose"
    )
    parser.add_argument("--namespace", default="", help="namespace of the cell")
    parser.add_argument("--record", default="", metavar="FILE", help=".npy file to write")
    options = parser.parse_args()
    bases = {name: float(y) for name, _, y in (text.partition("=") for text in options.arms)}
    announce_without_types()
    # No signal handlers, because the parent process ends this process.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node(
        f"motion_generator_{os.getpid()}",
        namespace=options.namespace,
        enable_rosout=False,
        start_parameter_services=False,
    )
    sent = publish(make_streams(node, bases, options.object, options.each))
    if options.record:
        np.save(options.record, np.array(sent))
    os.write(1, json.dumps({"rounds": len(sent), "seconds": sent[-1][0] - sent[0][0]}).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
