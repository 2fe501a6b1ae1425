# SPDX-License-Identifier: Apache-2.0
"""What a node knows of others is forgotten when they are gone, and looked up when they change."""

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
    """A node, who sends targets to it, and a function that looks until something is so."""
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


def test_a_subscriber_that_did_not_match_was_said_to_hear_nothing_for_ever(here):
    here.node.create_publisher(Float64, "/kept_here", QoSProfile(depth=1))
    unheard = here.node.guard.unheard
    profile = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    others = [rclpy.create_node(name) for name in ("deaf_one", "deaf_two")]
    ears = [other.create_subscription(Float64, "/kept_here", print, profile) for other in others]
    here.until(lambda: "/deaf_one" in unheard.get("/kept_here", ""))
    here.until(lambda: "/deaf_two" in unheard["/kept_here"])
    others[0].destroy_subscription(ears[0])
    here.until(lambda: "/deaf_one" not in unheard["/kept_here"])
    assert "/deaf_two" in unheard["/kept_here"]
    others[1].destroy_subscription(ears[1])
    here.until(lambda: not unheard)
    for other in others:
        other.destroy_node()


def test_a_publisher_that_came_as_another_went_was_known_by_the_name_of_the_other(here):
    first, second = (rclpy.create_node(name) for name in ("goes", "comes"))
    speaks = first.create_publisher(Float64, TOPIC, 1)
    here.until(lambda: list(here.targets.senders.values()) == [["/goes"]])
    first.destroy_publisher(speaks)
    second.create_publisher(Float64, TOPIC, 1)
    # Between two looks: their number is the same.
    wait_until(lambda: here.node.count_publishers(TOPIC) == 1, 10.0)
    here.until(lambda: list(here.targets.senders.values()) == [["/comes"]])
    for other in (first, second):
        other.destroy_node()


def test_a_cell_that_was_not_found_in_time_ran_beside_another_of_its_names(here):
    """It had asked for the names too early, and both took targets; now it ends."""
    other = rclpy.create_node("controller_manager", namespace=here.node.get_namespace())
    own = rclpy.create_node("controller_manager", namespace=here.node.get_namespace())
    try:
        here.until(lambda: here.node.guard.taken_twice == "/controller_manager")
        assert "/controller_manager: " in here.node.guard.failure
    finally:
        for node in (other, own):
            node.destroy_node()


def test_a_cell_stays_where_another_of_its_names_comes_later(here, monkeypatch):
    monkeypatch.setattr("multipanda_py.ros.node.graph_watch.DISCOVERY_TIMEOUT", 0.0)
    others = [rclpy.create_node("controller_manager") for _ in range(2)]
    try:
        here.until(lambda: here.node.guard.taken_twice == "/controller_manager")
        assert not here.node.guard.failure
    finally:
        for node in others:
            node.destroy_node()
