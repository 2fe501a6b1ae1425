# SPDX-License-Identifier: Apache-2.0
"""Bilateral teleoperation: a leader arm of another process and a follower of this one."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from geometry_msgs.msg import PoseStamped, WrenchStamped
from processes import TIMEOUT_SCALE
from std_msgs.msg import Bool

from multipanda_py.apps.teleoperation import Teleoperator
from multipanda_py.apps.teleoperation.ros_sources import Leader
from multipanda_py.ros.node.qos import TARGET_QOS
from multipanda_py.testing import simple_cell

pytestmark = [pytest.mark.clock, pytest.mark.node]

PLATE = {"plate": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.307, 0.0, 0.44]}}
LAW = {"follow": {"type": "cartesian_impedance"}}


class Pair:
    """Follower cell stepped by the test, and leader cell run as a node."""

    def __init__(self, node, client):
        self.node, self.client = node, client
        self.cell = simple_cell({"left": {}}, LAW, ["left/follow"], objects=PLATE)
        self.cell.start()
        self.cell.step(5)
        self.reported = []
        self.leader = Leader({"left": "/north/arm"}, feedback=0.5, report=self.reported.append)
        self.teleoperator = Teleoperator(
            self.cell, [self.leader], 30.0, report=self.reported.append
        )
        self.pose = client.listen(PoseStamped, "/north/arm/current_pose")
        self.sent, self.goal = [], None
        client.subscribe(
            "/north/arm/target_feedback_wrench", WrenchStamped,
            lambda message: self.sent.append(message.wrench.force.z), TARGET_QOS,
        )  # fmt: skip

    def until(self, condition, what, ticks=True):
        due, end = 0.0, time.monotonic() + 20.0 * TIMEOUT_SCALE
        while not condition():
            assert time.monotonic() < end, (what, self.reported, self.node.log)
            if time.monotonic() >= due:
                due = time.monotonic() + 1.0 / 30.0
                if self.goal is not None:
                    self.client.publish("/north/arm/target_pose", self.goal)
                if ticks:
                    self.teleoperator.tick()
                    self.cell.step(33)
            self.client.executor.spin_once(timeout_sec=0.01)

    def steadily(self, condition, what):
        """Wait until a condition holds for 1 s, in which a free leader reaches its target."""
        since = None

        def has_held():
            nonlocal since
            since = (since or time.monotonic()) if condition() else None
            return since is not None and time.monotonic() > since + 1.0

        self.until(has_held, what)

    def clutch(self, is_closed):
        self.client.publish("/north/arm/clutch", Bool(data=is_closed))
        received = self.leader.inputs["left"]
        self.until(lambda: received.is_engaged == is_closed, "the clutch")

    def lead(self, height):
        """Move the leader to a height; re-engage the clutch after a pause of the stream."""
        self.goal.pose.position.z = height
        if self.reported:
            self.clutch(False)
            self.clutch(True)
            self.reported.clear()

    def close(self):
        self.leader.close()
        self.cell.close()


@pytest.fixture
def pair(start, client):
    node = start(file=Path(__file__).parent / "leader_cell.yaml", remap=["__ns:=/north"])
    node.wait_for("is active")
    pair = Pair(node, client)
    yield pair
    pair.close()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_follower_tracks_and_reflects_force_until_process_stops_or_ends(pair):
    pair.until(lambda: pair.pose() is not None, "a pose of the leader")
    pair.goal = PoseStamped(pose=pair.pose().pose)
    begin, other = pair.goal.pose.position.z, pair.cell.pose("left").position[2]
    pair.until(lambda: time.monotonic() - pair.leader.inputs["left"].time < 0.2, "the stream")
    pair.clutch(True)
    pair.lead(begin - 0.02)
    pair.until(lambda: pair.cell.pose("left").position[2] < other - 0.012, "the follower")
    # The plate stops the follower; the leader yields to the reflected force, at 200 N/m.
    pair.lead(begin - 0.10)
    pair.until(lambda: pair.sent and pair.sent[-1] > 3.0, "a wrench")
    pair.steadily(
        lambda: pair.sent[-1] > 3.0 and pair.pose().pose.position.z > begin - 0.095,
        "a yielding leader",
    )

    # The sender is stopped: the leader's loop fades the wrench out and reports it.
    words = "arm: no feedback wrench for 0.25 s, so the displayed one fades out"
    os.kill(pair.leader.listener.pid, signal.SIGSTOP)
    pair.until(lambda: words in pair.node.log, "message of the leader", ticks=False)
    pair.until(
        lambda: pair.pose().pose.position.z < begin - 0.097, "a released leader", ticks=False
    )
    pair.until(lambda: pair.reported, "timeout message of the follower")
    assert "/north/arm/current_pose for 0.25 s" in pair.reported[0]
    os.kill(pair.leader.listener.pid, signal.SIGCONT)
    count = len(pair.sent)
    pair.until(lambda: len(pair.sent) > count, "a resumed link")

    # The clutch opens: the wrench fades and the arm holds.
    pair.clutch(False)
    pair.reported.clear()
    pair.until(lambda: pair.sent[-1] == 0.0, "a faded wrench")
    pair.clutch(True)
    pair.goal.pose.position.z = begin - 0.09
    pair.until(lambda: pair.leader.read()["left"].pose is not None, "new poses")
    os.kill(pair.node.process.pid, signal.SIGKILL)
    pair.goal = None
    pair.until(lambda: pair.reported, "timeout message after the leader's end")
    assert "/north/arm/current_pose for 0.25 s" in pair.reported[-1]
    held = pair.cell.pose("left").position[2]
    for _ in range(20):
        pair.teleoperator.tick()
        pair.cell.step(33)
    assert pair.cell.pose("left").position[2] == pytest.approx(held, abs=1e-3)
