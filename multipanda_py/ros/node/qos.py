# SPDX-License-Identifier: Apache-2.0
"""QoS profiles, and detection of publishers and subscriptions with incompatible QoS."""

from __future__ import annotations

from typing import Any, NamedTuple

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

TARGET_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Profile of targets. Best effort matches every publisher; only the newest target is used."""
STATE_QOS = QoSProfile(depth=1)
"""Profile of states. Reliable matches every subscription; only the newest state is used."""
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Profile of latched data for late subscribers: descriptions, fixed transforms, names."""
TRANSFORM_QOS = QoSProfile(depth=100)
"""Profile of tf2 listeners."""
DATA_QOS = QoSProfile(depth=10)
"""Profile of data of which a plot needs every message: diagnostics, introspection."""
CLOCK_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Profile of subscriptions to ``/clock``."""
REQUEST_QOS = QoSProfile(depth=1000)
"""Profile of services, for all clients together. If the queue is full while the node is busy, the
middleware drops the oldest request, and its client waits forever. The default of ROS 2 is 10."""


QOS_POLICIES = (
    ("reliability", ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE),
    ("durability", DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL),
)
"""QoS policies that can mismatch: name, weaker value, stronger value. No endpoint of this package
uses deadline or liveliness."""
_UNKNOWN = "_UNKNOWN_"


class QosMismatch(NamedTuple):
    """Incompatible publisher and subscription, as reported by the middleware.

    Attributes:
        node: Node of the local endpoint.
        topic: Topic name of the local endpoint.
        profile: QoS profile of the local endpoint.
        publishes: True if the local endpoint is the publisher.
    """

    node: Node
    topic: str
    profile: QoSProfile
    publishes: bool


def opposite_endpoints(mismatch: QosMismatch) -> list[Any]:
    """Return the topic's subscriptions if the local endpoint publishes, else its publishers."""
    node, topic, _, publishes = mismatch
    ask = node.get_subscriptions_info_by_topic if publishes else node.get_publishers_info_by_topic
    return list(ask(node.resolve_topic_name(topic)))


def incompatible_endpoints(mismatch: QosMismatch) -> list[Any]:
    """Return the remote endpoints with incompatible QoS whose node name is known."""
    _, _, here, publishes = mismatch
    result = []
    for there in filter(is_known, opposite_endpoints(mismatch)):
        offered, requested = (here, there.qos_profile) if publishes else (there.qos_profile, here)
        if any(getattr(offered, name) == less and getattr(requested, name) == more
               for name, less, more in QOS_POLICIES):  # fmt: skip
            result.append(there)
    return result


def describe_mismatch(mismatch: QosMismatch) -> str:
    """Return a message with the incompatible endpoints and policies."""
    node, topic, here, publishes = mismatch
    full = node.resolve_topic_name(topic)
    sides = [
        f"{full_name(there)} has {_difference(there.qos_profile, here)}"
        for there in incompatible_endpoints(mismatch)
    ]
    fault = (
        "a subscriber requests more than this node offers and receives"
        if publishes
        else "a publisher offers less than this node requests"
    )
    end = "nothing" if publishes else "and is not received"
    name = "; ".join(sides) or "an unknown node differs in deadline or liveliness"
    return f"{full}: {name}: {fault} {end}. Use compatible QoS on both sides"


def full_name(endpoint: Any) -> str:
    """Return the full name of an endpoint's node."""
    return f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}"


def is_known(endpoint: Any) -> bool:
    """Return True if the name of an endpoint's node has been discovered."""
    return _UNKNOWN not in endpoint.node_name + endpoint.node_namespace


def _difference(there: QoSProfile, here: QoSProfile) -> str:
    pairs = ((name, getattr(there, name), getattr(here, name)) for name, *_ in QOS_POLICIES)
    return ", ".join(
        f"{name} {one.name} instead of {other.name}" for name, one, other in pairs if one != other
    )
