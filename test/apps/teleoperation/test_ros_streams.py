# SPDX-License-Identifier: Apache-2.0
"""Streams of real publishers over loopback move an arm, and hold it when they fail."""

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


class Hand:
    """Publishes what a tracker does; a cell stepped by hand follows it."""

    def __init__(self):
        self.cell = simple_cell(active=[f"left/{CARTESIAN}"])
        self.cell.start()
        self.cell.step(5)
        self.root = f"/hand_{os.getpid()}"
        self.source, self.reported = RosStreams(("left",), self.root), []
        self.teleoperator = Teleoperator(self.cell, [self.source], report=self.reported.append)
        self.context = Context()  # others of this process have the default one
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
        def turn():
            act()
            self.teleoperator.tick()
            self.cell.step(20)
            poll()

        wait_until(condition, 20.0, lambda: self.reported, turn)

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
def hand():
    hand = Hand()
    yield hand
    hand.close()


def engage(hand, stream=None):
    """Close the clutch while the stream goes on."""
    stream = stream or (lambda: hand.pose(0.0))
    begin = time.monotonic()
    hand.until(lambda: hand.source.inputs["left"].time > begin, stream)
    hand.publishers["clutch"].publish(Bool(data=True))
    hand.until(lambda: hand.teleoperator.arms["left"].clutch.is_closed, stream)


@pytest.mark.slow
def test_poses_move_the_arm_and_silence_and_nonsense_hold_it(hand):
    before = hand.z()
    engage(hand)
    heights = iter([0.002 * k for k in range(31)] + [0.06] * 10_000)
    hand.until(lambda: hand.z() > before + 0.055, lambda: hand.pose(next(heights)))
    assert hand.reported == []
    hand.until(lambda: hand.reported)  # the stream pauses
    assert f"{hand.root}/left/pose for {TIMEOUT:g} s" in hand.reported[0]
    held = hand.z()
    hand.clutch(False)
    engage(hand)  # 6 cm lower than where the hand was: nothing moves by that
    assert hand.z() == pytest.approx(held, abs=4e-3)
    hand.until(lambda: len(hand.reported) == 2, lambda: hand.pose(math.nan))
    assert "position: got" in hand.reported[1]
    hand.clutch(False)
    engage(hand)
    hand.until(lambda: len(hand.reported) == 3, lambda: hand.pose(0.0, w=0.5))
    assert "quaternion: got norm 0.5" in hand.reported[2]
    assert hand.z() == pytest.approx(held, abs=4e-3)


def test_two_trackers_on_one_stream_moved_the_arm_to_and_fro(hand):
    before = hand.z()
    engage(hand)
    other = hand.node.create_publisher(PoseStamped, f"{hand.root}/left/pose", 10)
    hand.until(lambda: hand.reported, lambda: hand.pose(0.0))
    assert f"{hand.root}/left/pose has 2 publishers" in hand.reported[0]
    hand.node.destroy_publisher(other)
    hand.until(lambda: not hand.source.inputs["left"].conflict, lambda: hand.pose(0.0))
    hand.clutch(False)
    engage(hand)
    assert len(hand.reported) == 1
    assert hand.z() == pytest.approx(before, abs=4e-3)


def test_twists_of_both_kinds_move_it_the_hand_closes_and_a_dead_listener_is_said(hand):
    before = hand.z()
    stamped, plain = TwistStamped(), Twist()
    stamped.twist.linear.z, plain.linear.z = 0.1, -0.1
    twist, cmd_vel = hand.publishers["twist"], hand.publishers["cmd_vel"]
    engage(hand, lambda: twist.publish(stamped))
    hand.until(lambda: hand.z() > before + 0.03, lambda: twist.publish(stamped))
    hand.until(lambda: hand.z() < before + 0.01, lambda: cmd_vel.publish(plain))
    assert hand.reported == []
    hand.publishers["gripper"].publish(Bool(data=True))
    gripper = hand.cell.gripper("left")
    hand.until(lambda: gripper.state().width < 0.01, lambda: cmd_vel.publish(Twist()))
    os.kill(hand.source.listener.pid, signal.SIGKILL)
    hand.until(lambda: hand.reported)
    assert "ros: " in hand.reported[0]
    with pytest.raises(SourceLost):
        hand.source.read()
