# SPDX-License-Identifier: Apache-2.0
"""Follower of a leader over loopback: motion, feedback, and hold when leader or link stops.

The leader here is a publisher of its messages. ``test/ros`` tests it with a node.
"""

from __future__ import annotations

import math
import os
import signal
import time

import pytest

pytest.importorskip("rclpy", reason="rclpy is not installed")
import rclpy
from geometry_msgs.msg import PoseStamped, WrenchStamped
from processes import TIMEOUT_SCALE
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, ReliabilityPolicy
from std_msgs.msg import Bool

from multipanda_py.apps.teleoperation import Teleoperator
from multipanda_py.apps.teleoperation.ros_sources import TIMEOUT, Leader
from multipanda_py.testing import simple_cell

pytestmark = pytest.mark.node
EVERY = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Profile that keeps all messages between two polls of the test."""


class Led:
    """Topics of a leader, and a cell in lockstep whose arm follows them."""

    def __init__(self):
        topic_root = f"/led_{os.getpid()}/arm"
        self.cell = simple_cell(active=["left/cartesian_impedance_controller"])
        self.cell.start()
        self.cell.step(5)
        self.hand = self.cell.simulation.model.body("left_fr3_hand").id
        self.reported, self.sent, self.height = [], [], None
        self.leader = Leader({"left": topic_root}, feedback=0.5, report=self.reported.append)
        self.teleoperator = Teleoperator(
            self.cell, [self.leader], 30.0, report=self.reported.append
        )
        self.context = Context()  # Other tests of this process use the default context.
        rclpy.init(context=self.context)
        self.node = rclpy.create_node(f"leader_{os.getpid()}", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.poses = self.node.create_publisher(PoseStamped, f"{topic_root}/current_pose", 1)
        self.pedal = self.node.create_publisher(Bool, f"{topic_root}/clutch", 1)
        self.until(lambda: self.poses.get_subscription_count(), "the link")
        self.until(lambda: self.pedal.get_subscription_count(), "the link's clutch")
        self.topic = f"{topic_root}/target_feedback_wrench"

    def listen(self):
        def keep(message):
            self.sent.append(message.wrench.force.z)

        self.node.create_subscription(WrenchStamped, self.topic, keep, EVERY)

    def until(self, condition, label):
        end = time.monotonic() + 20.0 * TIMEOUT_SCALE
        due = 0.0
        while not condition():
            assert time.monotonic() < end, (label, self.reported, self.sent[-5:])
            self.executor.spin_once(timeout_sec=0.01)
            if time.monotonic() > due:
                due = time.monotonic() + 0.03
                if self.height is not None:
                    message = PoseStamped()
                    message.pose.position.z, message.pose.orientation.w = self.height, 1.0
                    self.poses.publish(message)
                self.teleoperator.tick()
                self.cell.step(33)

    def clutch(self, is_closed):
        received = self.leader.inputs["left"]
        self.pedal.publish(Bool(data=is_closed))
        self.until(lambda: received.is_engaged == is_closed, "the clutch")

    def engage(self, height=0.0):
        """Close the clutch again while the stream continues, which moves nothing."""
        self.clutch(False)
        self.height, begin = height, time.monotonic()
        received = self.leader.inputs["left"]
        self.until(lambda: received.time > begin and received.value[2] == height, "the stream")
        self.reported.clear()
        self.clutch(True)
        clutch = self.teleoperator.arms["left"].clutch
        self.until(lambda: clutch.is_closed, "an arm that follows")

    def press(self, force):
        self.cell.simulation.data.xfrc_applied[self.hand, 2] = force

    def z(self):
        return float(self.cell.pose("left").position[2])

    def target(self):
        return float(self.teleoperator.arms["left"].last_target.position[2])

    def close(self):
        self.leader.close()
        self.node.destroy_node()
        self.executor.shutdown()
        rclpy.shutdown(context=self.context)
        self.cell.close()


@pytest.fixture
def led():
    led = Led()
    yield led
    led.close()


def test_arm_follows_leader_with_feedback_and_holds_on_timeout(led):
    timeout_report = f"no message on {led.topic.rpartition('/')[0]}/current_pose for {TIMEOUT:g} s"
    begin = led.z()
    led.engage()
    led.until(lambda: led.reported, "the report of a missing subscriber")
    assert "no subscriber of" in led.reported[0]
    led.listen()
    led.height = -0.02
    led.until(lambda: led.z() < begin - 0.018, "the follower")
    led.press(10.0)
    led.until(lambda: led.sent and led.sent[-1] > 3.0, "a wrench")

    # The link stops, and continues when its queued messages are stale.
    process = led.leader.listener.pid
    os.kill(process, signal.SIGSTOP)
    led.until(lambda: timeout_report in str(led.reported), "the report of the hold")
    end = time.monotonic() + 2 * TIMEOUT
    led.until(lambda: time.monotonic() > end, "stale queued messages")
    led.press(0.0)
    led.sent.clear()
    os.kill(process, signal.SIGCONT)
    led.until(lambda: len(led.sent) > 3, "the link to continue")
    assert not any(led.sent)
    held = led.target()
    led.height = -0.06
    led.until(lambda: led.leader.inputs["left"].value[2] == led.height, "poses again")
    assert led.target() == pytest.approx(held, abs=1e-9)

    # An invalid pose, and a leader that stops publishing.
    led.engage()
    led.height = math.nan
    led.until(lambda: led.reported, "the report of the invalid pose")
    assert "position: got" in led.reported[0]
    led.engage(0.1)
    led.height = None
    led.until(lambda: led.reported, "the report of the timeout")
    assert timeout_report in led.reported[0]
    assert led.target() == pytest.approx(held, abs=1e-9)
    led.until(lambda: abs(led.z() - held) < 2e-3, "an arm at rest at its hold")
