# SPDX-License-Identifier: Apache-2.0
"""``/clock`` of a simulating node: all stamps use its time."""

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

CONFIGURATION = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785]
BEST_EFFORT = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


@pytest.fixture(scope="module")
def timed(tmp_path_factory, node_process):
    """A node on simulated time, with remapped ``/clock`` and ``/tf``."""
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
def test_simulated_time_stamps_states_and_judges_targets(timed, client):
    node = timed
    clock = client.listen(Clock, "/timed/clock", BEST_EFFORT)
    state = client.listen(JointState, "/timed/left/joint_states")
    client.until(lambda: clock() and state(), 20.0, "a clock and states")
    first = Time.from_msg(clock().clock).nanoseconds
    assert 0 < first < 600e9, "simulated time starts at zero"
    client.until(lambda: Time.from_msg(clock().clock).nanoseconds > first + 2e8, what="time")
    stamp = Time.from_msg(state().header.stamp)
    # A 1 kHz cycle starts at a whole millisecond of simulated time; steps of /clock do not.
    assert stamp.nanoseconds % 1_000_000 == 0
    assert abs(stamp.nanoseconds - Time.from_msg(clock().clock).nanoseconds) < 5e9

    target = JointState(name=LEFT_JOINTS, position=CONFIGURATION)
    values = lambda: client.diagnosis(f"{node.name}/left")[1]  # noqa: E731

    def is_accepted():
        target.header.stamp = clock().clock
        return int(values()["target messages"]) > int(values()["rejected targets"])

    client.stream("/timed/left/target_joint", target, is_accepted, "an accepted target")
    target.header.stamp = Time(seconds=1_700_000_000).to_msg()
    client.stream(
        "/timed/left/target_joint",
        target,
        lambda: "in the future" in values()["last rejection"],
        "a rejected target of a different clock",
    )


@pytest.mark.long
def test_transform_and_introspection_rates_are_those_of_cell_file(timed, client):
    """The rates follow from stamps over two seconds without a missed state."""
    stamps, subscriptions, arrived = {}, [], {}
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
                arrived[observed[-1]] = time.monotonic()

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
        client.until(
            lambda: min(transforms[-1], numbers[-1]) > end + 0.2, what="messages of that period"
        )
    finally:
        for one in subscriptions:
            client.node.destroy_subscription(one)

    def rate(sent):
        within = [stamp for stamp in sent if begin <= stamp <= end]
        return (len(within) - 1) / (within[-1] - within[0])

    slow = (arrived[end] - arrived[begin]) / (end - begin)  # e.g. 1.6 on a slow machine
    assert rate(states) == pytest.approx(20.0 * slow, rel=0.1)
    assert rate(transforms) == pytest.approx(8.0 * slow, rel=0.1)
    assert rate(numbers) == pytest.approx(20.0 * slow, rel=0.1)


@pytest.mark.long
def test_clock_rate_without_use_sim_time_is_rejected(start):
    node = start("cell.clock_rate:=200.0", remap=["__ns:=/untimed"])
    assert node.process.wait(60.0) == 1
    assert "cell.clock_rate: got 200 " in node.log
