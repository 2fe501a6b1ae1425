# SPDX-License-Identifier: Apache-2.0
"""``/clock`` of a node that simulates: stamps are of the same time."""

from __future__ import annotations

import time

import numpy as np
import pytest
from cell_names import LEFT_JOINTS
from pal_statistics_msgs.msg import StatisticsValues
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.time import Time
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from tf2_msgs.msg import TFMessage

pytestmark = [pytest.mark.clock, pytest.mark.node]

POSTURE = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture(scope="module")
def timed(tmp_path_factory, node_process):
    """A node that lives by the time of its world; nobody else is on its ``/clock`` and ``/tf``."""
    options = (
        "cell.clock_rate:=200.0",
        "cell.joint_state_rate:=20.0",
        "cell.tf_rate:=8.0",
        "cell.introspection_rate:=20.0",
        "use_sim_time:=true",
        "active:=[left/joint_impedance_controller]",
    )
    remap = ["__ns:=/timed", "/clock:=/timed/clock", "/tf:=/timed/tf"]
    node = node_process(tmp_path_factory.mktemp("timed"), *options, remap=remap)
    try:
        yield node.wait_for("is active")
    finally:
        code = node.end()
    assert code == 0, node.log


@pytest.mark.slow
def test_states_are_stamped_by_the_world_and_targets_judged_by_it(timed, client):
    node = timed
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

    target = JointState(name=LEFT_JOINTS, position=POSTURE)
    values = lambda: client.diagnosis(f"{node.name}/left")[1]  # noqa: E731

    def is_taken():
        target.header.stamp = clock().clock
        return int(values()["target messages"]) > int(values()["rejected targets"])

    client.stream("/timed/left/target_joint", target, is_taken, "a target that is taken")
    target.header.stamp = Time(seconds=1_700_000_000).to_msg()
    client.stream(
        "/timed/left/target_joint",
        target,
        lambda: "in the future" in values()["last rejection"],
        "a target by another clock that is refused",
    )


@pytest.mark.long
def test_rates_of_transforms_and_numbers_are_those_of_the_cell_file(timed, client):
    """By the stamps of what is sent, of two seconds in which the machine left out no state."""
    stamps, subscriptions, came = {}, [], {}
    for kind, topic in (
        (JointState, "left/joint_states"),
        (TFMessage, "tf"),
        (StatisticsValues, "introspection_data/values"),
    ):
        observed = stamps[topic] = []

        def keep(message, observed=observed):
            one = message.transforms[0] if hasattr(message, "transforms") else message
            observed.append(Time.from_msg(one.header.stamp).nanoseconds * 1e-9)
            if observed is stamps["left/joint_states"]:
                came[observed[-1]] = time.monotonic()

        subscriptions.append(client.node.create_subscription(kind, f"/timed/{topic}", keep, 100))
    states, transforms, numbers = stamps.values()

    def steady():
        """Return the stamps of the last two seconds, or none if one is missing."""
        within = [stamp for stamp in states if stamp > states[-1] - 2.0]
        received = min(transforms[0], numbers[0]) if transforms and numbers else np.inf
        return within if received < within[0] and np.diff(within).max() < 0.09 else []

    try:
        client.until(lambda: len(states) > 40 and steady(), what="two seconds of states")
        begin, *_, end = steady()
        client.until(lambda: min(transforms[-1], numbers[-1]) > end + 0.2, what="what they sent")
    finally:
        for one in subscriptions:
            client.node.destroy_subscription(one)

    def rate(sent):
        within = [stamp for stamp in sent if begin <= stamp <= end]
        return (len(within) - 1) / (within[-1] - within[0])

    slow = (came[end] - came[begin]) / (end - begin)  # 1.6 on a machine that falls behind
    assert rate(states) == pytest.approx(20.0 * slow, rel=0.1)
    assert rate(transforms) == pytest.approx(8.0 * slow, rel=0.1)
    assert rate(numbers) == pytest.approx(20.0 * slow, rel=0.1)


@pytest.mark.long
def test_a_clock_that_the_node_itself_does_not_live_by_is_refused(start):
    node = start("cell.clock_rate:=200.0", remap=["__ns:=/untimed"])
    assert node.process.wait(60.0) == 1
    assert "cell.clock_rate: got 200 " in node.log
