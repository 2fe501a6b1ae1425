# SPDX-License-Identifier: Apache-2.0
"""Records of other nodes are removed with the nodes and renewed after changes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import rclpy
from processes import wait_until
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import Float64

from multipanda_py.ros.node.graph_watch import GraphWatch
from multipanda_py.ros.node.guard import GuardedNode

pytestmark = pytest.mark.inline

TOPIC = "/watched/target_internal_force"


@pytest.fixture
def here(ros):
    """A node, its target senders, and a function that checks the graph until a condition."""
    node = GuardedNode("watches")
    topics = {TOPIC: ("watched", "target_internal_force", "std_msgs/msg/Float64")}
    targets = SimpleNamespace(topics=topics, senders={})
    watch = GraphWatch(node, SimpleNamespace(arms=()), targets)
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    def until(condition):
        def look():
            executor.spin_once(timeout_sec=0.02)
            watch.check()
            return condition()

        wait_until(look, 10.0)

    yield SimpleNamespace(node=node, targets=targets, until=until)
    executor.shutdown()
    node.destroy_node()


def test_incompatible_subscriber_was_reported_after_its_removal(here):
    here.node.create_publisher(Float64, "/kept_here", QoSProfile(depth=1))
    qos_warnings = here.node.guard.qos_warnings
    profile = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    others = [rclpy.create_node(name) for name in ("deaf_one", "deaf_two")]
    subscriptions = [
        other.create_subscription(Float64, "/kept_here", print, profile) for other in others
    ]
    here.until(lambda: "/deaf_one" in qos_warnings.get("/kept_here", ""))
    here.until(lambda: "/deaf_two" in qos_warnings["/kept_here"])
    others[0].destroy_subscription(subscriptions[0])
    here.until(lambda: "/deaf_one" not in qos_warnings["/kept_here"])
    assert "/deaf_two" in qos_warnings["/kept_here"]
    others[1].destroy_subscription(subscriptions[1])
    here.until(lambda: not qos_warnings)
    for other in others:
        other.destroy_node()


def test_new_publisher_kept_name_of_replaced_one(here):
    first, second = (rclpy.create_node(name) for name in ("goes", "comes"))
    publisher = first.create_publisher(Float64, TOPIC, 1)
    here.until(lambda: list(here.targets.senders.values()) == [["/goes"]])
    first.destroy_publisher(publisher)
    second.create_publisher(Float64, TOPIC, 1)
    # The count is equal at two consecutive checks.
    wait_until(lambda: here.node.count_publishers(TOPIC) == 1, 10.0)
    here.until(lambda: list(here.targets.senders.values()) == [["/comes"]])
    for other in (first, second):
        other.destroy_node()


def test_undiscovered_cell_ran_beside_cell_of_same_names(here):
    """The early name check missed the other cell, and both accepted targets."""
    other = rclpy.create_node("controller_manager", namespace=here.node.get_namespace())
    own = rclpy.create_node("controller_manager", namespace=here.node.get_namespace())
    try:
        here.until(lambda: here.node.guard.taken_twice == "/controller_manager")
        assert "/controller_manager: " in here.node.guard.failure
    finally:
        for node in (other, own):
            node.destroy_node()


def test_running_cell_stays_when_later_cell_takes_names(here, monkeypatch):
    monkeypatch.setattr("multipanda_py.ros.node.graph_watch.DISCOVERY_TIMEOUT", 0.0)
    others = [rclpy.create_node("controller_manager") for _ in range(2)]
    try:
        here.until(lambda: here.node.guard.taken_twice == "/controller_manager")
        assert not here.node.guard.failure
    finally:
        for node in others:
            node.destroy_node()
