# SPDX-License-Identifier: Apache-2.0
"""``/clock`` of a node that simulates: stamps are of the same time."""

from __future__ import annotations

import numpy as np
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState

NAMES = [f"left_fr3_joint{number}" for number in range(1, 8)]
POSTURE = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


def test_states_are_stamped_by_the_world_and_targets_judged_by_it(start, client):
    options = (
        "cell.clock_rate:=200.0",
        "cell.joint_state_rate:=20.0",
        "use_sim_time:=true",
        "active:=[left/joint_impedance_controller]",
    )
    node = start(*options, remap=["__ns:=/timed", "/clock:=/timed/clock"]).wait_for("is active")
    clock = client.listen(Clock, "/timed/clock", BEST_EFFORT)
    state = client.listen(JointState, "/timed/left/joint_states")
    client.until(lambda: clock() and state(), 20.0, "a clock and states")
    first = Time.from_msg(clock().clock).nanoseconds
    assert 0 < first < 600e9, "the world begins at zero"
    client.until(lambda: Time.from_msg(clock().clock).nanoseconds > first + 2e8, what="time")
    stamp = Time.from_msg(state().header.stamp)
    # A cycle of 1 kHz begins at a whole millisecond of its world, which steps of /clock are not.
    assert stamp.nanoseconds % 1_000_000 == 0
    assert abs(stamp.nanoseconds - Time.from_msg(clock().clock).nanoseconds) < 5e9

    stamps = []
    client.node.create_subscription(
        JointState, "/timed/left/joint_states",
        lambda m: stamps.append(Time.from_msg(m.header.stamp).nanoseconds), 10,
    )  # fmt: skip
    client.until(lambda: len(stamps) > 8, what="states at 20 Hz")
    assert 0.04 < np.median(np.diff(stamps)) * 1e-9 < 0.06

    target = JointState(name=NAMES, position=POSTURE)
    values = lambda: client.diagnosis(f"{node.name}/left")[1]  # noqa: E731

    def is_taken():
        target.header.stamp = clock().clock
        return int(values()["target messages"]) > int(values()["refused targets"])

    client.stream("/timed/left/target_joint", target, is_taken, "a target that is taken")
    target.header.stamp = Time(seconds=1_700_000_000).to_msg()
    client.stream(
        "/timed/left/target_joint",
        target,
        lambda: "in the future" in values()["last refusal"],
        "a target by another clock that is refused",
    )


def test_a_clock_that_the_node_itself_does_not_live_by_is_refused(start):
    node = start("cell.clock_rate:=200.0", remap=["__ns:=/untimed"])
    assert node.process.wait(60.0) == 1
    assert "cell.clock_rate: got 200 with use_sim_time: false, allowed 0" in node.log
