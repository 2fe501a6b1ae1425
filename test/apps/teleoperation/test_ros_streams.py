# SPDX-License-Identifier: Apache-2.0
"""Streams of real publishers over loopback: they move an arm, which holds when they fail."""

from __future__ import annotations

import math
import os
import signal
import time

import pytest
from cell_names import CARTESIAN

pytest.importorskip("rclpy", reason="rclpy is not installed")
import rclpy
from geometry_msgs.msg import PoseStamped, Twist, TwistStamped
from processes import poll, wait_until
from rclpy.context import Context
from std_msgs.msg import Bool

from multipanda_py.apps.teleoperation import Teleoperator
from multipanda_py.apps.teleoperation.ros_sources import TIMEOUT, RosStreams
from multipanda_py.exceptions import SourceLost
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.node


class Tracker:
    """Publisher of tracker messages, and a cell in lockstep that follows them."""

    def __init__(self):
        self.cell = simple_cell(active=[f"left/{CARTESIAN}"])
        self.cell.start()
        self.cell.step(5)
        self.root = f"/hand_{os.getpid()}"
        self.source, self.reported = RosStreams(("left",), self.root), []
        self.teleoperator = Teleoperator(self.cell, [self.source], report=self.reported.append)
        self.context = Context()  # Other tests of this process use the default context.
        rclpy.init(context=self.context)
        self.node = rclpy.create_node(f"tracker_{os.getpid()}", context=self.context)
        self.publishers = {
            name: self.node.create_publisher(type_, f"{self.root}/left/{name}", 10)
            for name, type_ in (
                ("pose", PoseStamped), ("twist", TwistStamped), ("cmd_vel", Twist),
                ("clutch", Bool), ("gripper", Bool),
            )
        }  # fmt: skip
        self.until(lambda: all(p.get_subscription_count() for p in self.publishers.values()))

    def until(self, condition, act=lambda: None):
        def tick_once():
            act()
            self.teleoperator.tick()
            self.cell.step(20)
            poll()

        wait_until(condition, 20.0, lambda: self.reported, tick_once)

    def clutch(self, is_closed):
        self.publishers["clutch"].publish(Bool(data=is_closed))
        self.until(lambda: self.source.inputs["left"].is_engaged == is_closed)

    def pose(self, z, w=1.0):
        message = PoseStamped()
        message.header.frame_id = "tracker"
        message.pose.position.z, message.pose.orientation.w = z, w
        self.publishers["pose"].publish(message)

    def z(self):
        return float(self.cell.pose("left").position[2])

    def close(self):
        self.source.close()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)
        self.cell.close()


@pytest.fixture
def tracker():
    tracker = Tracker()
    yield tracker
    tracker.close()


def engage(tracker, stream=None):
    """Close the clutch while the stream continues."""
    stream = stream or (lambda: tracker.pose(0.0))
    begin = time.monotonic()
    tracker.until(lambda: tracker.source.inputs["left"].time > begin, stream)
    tracker.publishers["clutch"].publish(Bool(data=True))
    tracker.until(lambda: tracker.teleoperator.arms["left"].clutch.is_closed, stream)


@pytest.mark.slow
def test_poses_move_arm_timeouts_and_invalid_poses_hold_it(tracker):
    before = tracker.z()
    engage(tracker)
    heights = iter([0.002 * k for k in range(31)] + [0.06] * 10_000)
    tracker.until(lambda: tracker.z() > before + 0.055, lambda: tracker.pose(next(heights)))
    assert tracker.reported == []
    tracker.until(lambda: tracker.reported)  # The stream pauses.
    assert f"{tracker.root}/left/pose for {TIMEOUT:g} s" in tracker.reported[0]
    held = tracker.z()
    tracker.clutch(False)
    engage(tracker)  # The device is 6 cm lower than before, which moves nothing.
    assert tracker.z() == pytest.approx(held, abs=4e-3)
    tracker.until(lambda: len(tracker.reported) == 2, lambda: tracker.pose(math.nan))
    assert "position: got" in tracker.reported[1]
    tracker.clutch(False)
    engage(tracker)
    tracker.until(lambda: len(tracker.reported) == 3, lambda: tracker.pose(0.0, w=0.5))
    assert "quaternion: got norm 0.5" in tracker.reported[2]
    assert tracker.z() == pytest.approx(held, abs=4e-3)


def test_two_trackers_on_one_stream_moved_arm_back_and_forth(tracker):
    before = tracker.z()
    engage(tracker)
    other = tracker.node.create_publisher(PoseStamped, f"{tracker.root}/left/pose", 10)
    tracker.until(lambda: tracker.reported, lambda: tracker.pose(0.0))
    assert f"{tracker.root}/left/pose has 2 publishers" in tracker.reported[0]
    tracker.node.destroy_publisher(other)
    tracker.until(lambda: not tracker.source.inputs["left"].conflict, lambda: tracker.pose(0.0))
    tracker.clutch(False)
    engage(tracker)
    assert len(tracker.reported) == 1
    assert tracker.z() == pytest.approx(before, abs=4e-3)


def test_twists_and_gripper_commands_work_dead_listener_is_reported(tracker):
    before = tracker.z()
    stamped, plain = TwistStamped(), Twist()
    stamped.twist.linear.z, plain.linear.z = 0.1, -0.1
    twist, cmd_vel = tracker.publishers["twist"], tracker.publishers["cmd_vel"]
    engage(tracker, lambda: twist.publish(stamped))
    tracker.until(lambda: tracker.z() > before + 0.03, lambda: twist.publish(stamped))
    tracker.until(lambda: tracker.z() < before + 0.01, lambda: cmd_vel.publish(plain))
    assert tracker.reported == []
    tracker.publishers["gripper"].publish(Bool(data=True))
    gripper = tracker.cell.gripper("left")
    tracker.until(lambda: gripper.state().width < 0.01, lambda: cmd_vel.publish(Twist()))
    os.kill(tracker.source.listener.pid, signal.SIGKILL)
    tracker.until(lambda: tracker.reported)
    assert "ros: " in tracker.reported[0]
    with pytest.raises(SourceLost):
        tracker.source.read()
