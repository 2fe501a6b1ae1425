# SPDX-License-Identifier: Apache-2.0
"""Quality of service as documented; incompatible and duplicate endpoints are named."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import rclpy
from cell_names import JOINT
from geometry_msgs.msg import Pose, PoseStamped
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64

from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.qos import describe_mismatch, incompatible_endpoints

pytestmark = pytest.mark.node

PAGE = Path(__file__).resolve().parents[3] / "doc" / "ros_interface.md"
BEST, SURE = ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE
VOLATILE, KEPT = DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL
WORDS = {"best effort": BEST, "reliable": SURE, "volatile": VOLATILE, "transient local": KEPT}


def stated():
    """Yield topic, reliability and durability of every row of the page except cameras."""
    row = r"^\| `([\w/<>]+)` \| `\w+/msg/\w+` \| ([a-z ]+), ([a-z ]+), \d+ \|"
    page = re.sub(r"## Cameras.*?(?=\n## )", "", PAGE.read_text(), flags=re.S)
    for name, reliability, durability in re.findall(row, page, re.M):
        for arm in ("left", "right"):
            topic = "/" + name.replace("<arm>", arm).replace("<object>", "box").lstrip("/")
            yield topic, (WORDS[reliability], WORDS[durability])


def endpoints(client, topic, queries):
    """Return the quality of service of all endpoints of other nodes on a topic."""
    own = client.node.get_name()
    found = [one for query in queries for one in query(topic) if one.node_name != own]
    return {(one.qos_profile.reliability, one.qos_profile.durability) for one in found}


@pytest.mark.clock
def test_page_states_the_quality_of_service_of_every_topic(cell, client):
    node, rows = client.node, dict(stated())
    assert len(rows) > 25
    for topic, profile in rows.items():
        is_state = topic.endswith("/target_status")
        is_subscribed = ("/target_" in topic and not is_state) or topic == "/heartbeat"
        queries = [
            node.get_subscriptions_info_by_topic
            if is_subscribed
            else node.get_publishers_info_by_topic
        ]
        client.until(
            lambda queries=queries, topic=topic: endpoints(client, topic, queries), what=topic
        )
        assert endpoints(client, topic, queries) == {profile}, topic


@pytest.fixture
def beside(ros):
    """A function that creates further nodes, destroyed after the test."""
    made = []

    def make(name, **options):
        made.append(rclpy.create_node(name, **options))
        return made[-1]

    yield make
    for node in made:
        node.destroy_node()


@pytest.mark.long
@pytest.mark.clock
@pytest.mark.parametrize("durability", [VOLATILE, KEPT])
@pytest.mark.parametrize("reliability", [BEST, SURE])
def test_messages_of_publisher_with_any_qos_are_received(
    cell, client, beside, reliability, durability
):
    profile = QoSProfile(depth=1, reliability=reliability, durability=durability)
    publisher = beside("any_kind").create_publisher(PoseStamped, "/left/target_pose", profile)
    target = client.newest(PoseStamped, "/left/current_pose")

    def received():
        return int(client.diagnosis(f"{cell.name}/left")[1]["target messages"])

    before = received()

    def sent_and_received():
        publisher.publish(target)
        return received() > before

    client.until(sent_and_received, what="a target")


@pytest.mark.clock
def test_incompatible_subscriber_is_named(cell, client, beside):
    latecomer = beside("latecomer")
    profile = QoSProfile(depth=1, durability=KEPT)
    latecomer.create_subscription(PoseStamped, "/left/current_pose", lambda _: None, profile)
    words = "/left/current_pose: /latecomer has durability TRANSIENT_LOCAL instead of VOLATILE"
    client.newest(PoseStamped, "/left/current_pose")  # a compatible subscriber is not named
    client.until(lambda: words in cell.log, what=words)
    client.until(
        lambda: words in client.diagnosis(cell.name)[1]["not heard"],
        what="the mismatch in diagnostics",
    )


def test_incompatible_publisher_is_named(ros, beside):
    """The node requests only the minimum, so the test creates a stricter subscription."""
    here, there = GuardedNode("asks_for_much"), beside("offers_little")
    here.create_subscription(Float64, "/much", lambda _: None, QoSProfile(depth=1))
    there.create_publisher(Float64, "/much", QoSProfile(depth=1, reliability=BEST))
    executor = SingleThreadedExecutor()
    executor.add_node(here)
    for _ in range(100):
        executor.spin_once(timeout_sec=0.1)
        if here.guard.mismatches and incompatible_endpoints(here.guard.mismatches[0]):
            break
    (mismatch,) = here.guard.mismatches
    names = r"^/much: /offers_little .*\bBEST_EFFORT\b.*\bRELIABLE\b"
    assert re.match(names, describe_mismatch(mismatch))
    executor.shutdown()
    here.destroy_node()


@pytest.mark.clock
def test_publisher_of_different_type_is_named(cell, client, beside):
    context = Context()  # the middleware rejects a second type within one participant
    rclpy.init(context=context)
    beside("poser", context=context).create_publisher(Pose, "/right/target_twist", 1)
    words = "/right/target_twist: /poser publishes geometry_msgs/msg/Pose, but the type must be"
    client.until(lambda: words in cell.log, what=words)
    rclpy.shutdown(context=context)


@pytest.mark.clock
def test_newest_message_of_two_publishers_counts_and_both_are_named(cell, client, beside):
    pose = client.newest(PoseStamped, "/right/current_pose")
    pose.header.stamp.sec = pose.header.stamp.nanosec = 0
    topic, nodes = "/right/target_pose", [beside("policy"), beside("teleop")]
    publishers = [node.create_publisher(PoseStamped, topic, 1) for node in nodes]
    words = f"{topic} is published by /policy, /teleop. The newest message counts"
    for publisher, offset in ((publishers[0], 0.03), (publishers[1], -0.03), (publishers[0], 0.0)):
        target = copy.deepcopy(pose)
        target.pose.position.z += offset

        def there(publisher=publisher, target=target):
            publisher.publish(target)
            now = client.newest(PoseStamped, "/right/current_pose").pose.position.z
            return abs(now - target.pose.position.z) < 0.01

        client.until(there, what=f"the arm at {offset} m")
    client.until(lambda: words in cell.log, what=words)
    assert cell.log.count(words) == 1
    get = lambda: client.diagnosis(f"{cell.name}/right")[1]["several senders"]  # noqa: E731
    client.until(lambda: get() == "target_pose: /policy, /teleop", what="both in diagnostics")
    nodes[1].destroy_publisher(publishers[1])
    client.until(lambda: get() == "", what="one publisher again")


@pytest.mark.clock
def test_second_joint_publisher_beside_stream_is_named_and_effective(cell, client, beside):
    """The case of crisp_py's home() during its own stream, which repeats targets at 50 Hz."""
    assert client.switch([JOINT], (), 4, "/right").ok
    now = client.newest(JointState, "/right/joint_states")
    topic, nodes = "/right/target_joint", [beside("stream"), beside("another")]
    stream, other = (node.create_publisher(JointState, topic, 1) for node in nodes)
    kept = JointState(name=now.name, position=now.position)
    moved = JointState(name=now.name, position=[*now.position[:6], now.position[6] + 0.1])
    last = client.listen(JointState, "/right/joint_states")

    def reaches(joint):
        stream.publish(kept)
        if joint > now.position[6] + 0.05:
            other.publish(moved)  # newest, as it follows the stream's
        return abs(last().position[6] - joint) < 0.03

    client.until(lambda: reaches(moved.position[6]), what="target of the second publisher")
    client.until(lambda: reaches(kept.position[6]), what="target of the stream again")
    words = f"{topic} is published by /another, /stream"
    client.until(lambda: words in cell.log, what=words)
