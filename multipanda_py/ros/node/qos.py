# SPDX-License-Identifier: Apache-2.0
"""Publishers and subscribers that do not match, and so do not hear one another."""

from __future__ import annotations

from typing import Any, NamedTuple

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

TARGETS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""Asks for the least, so that every publisher matches; only the newest target counts."""
STATES = QoSProfile(depth=1)
"""Offered reliably, so that subscribers of either kind match; only the newest counts."""
KEPT = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Said once, and kept for who comes later: descriptions, fixed transforms, names."""
TRANSFORMS = QoSProfile(depth=100)
"""What tf2's listeners ask for."""
NUMBERS = QoSProfile(depth=10)
"""Of which a plot wants every one: diagnostics, introspection."""
CLOCK = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
"""As whoever lives by ``/clock`` asks for."""
REQUESTS = QoSProfile(depth=1000)
"""Of services, of all clients together: of more that come while the node is busy the middleware
drops the oldest, and who asked waits for ever. ROS 2 has 10 unless told otherwise."""


POLICIES = (
    ("reliability", ReliabilityPolicy.BEST_EFFORT, ReliabilityPolicy.RELIABLE),
    ("durability", DurabilityPolicy.VOLATILE, DurabilityPolicy.TRANSIENT_LOCAL),
)
"""What is not enough, where more is asked for. Nobody here promises a deadline or a life sign."""
_UNKNOWN = "_UNKNOWN_"


class Mismatch(NamedTuple):
    """A publisher and a subscription of which the middleware says that they do not match.

    Attributes:
        node: Of the side that is here.
        topic: As that side named it.
        profile: Of that side.
        publishes: Whether that side is the publisher.
    """

    node: Node
    topic: str
    profile: QoSProfile
    publishes: bool


def opposite(mismatch: Mismatch) -> list[Any]:
    """Return all endpoints on the other side."""
    node, topic, _, publishes = mismatch
    ask = node.get_subscriptions_info_by_topic if publishes else node.get_publishers_info_by_topic
    return list(ask(node.resolve_topic_name(topic)))


def others(mismatch: Mismatch) -> list[Any]:
    """Return the endpoints on the other side that do not match, as far as they are known."""
    _, _, here, publishes = mismatch
    found = []
    for there in filter(is_known, opposite(mismatch)):
        offered, asked = (here, there.qos_profile) if publishes else (there.qos_profile, here)
        if any(getattr(offered, name) == less and getattr(asked, name) == more
               for name, less, more in POLICIES):  # fmt: skip
            found.append(there)
    return found


def sentence(mismatch: Mismatch) -> str:
    """Say who does not hear whom, and for which policy."""
    node, topic, here, publishes = mismatch
    full = node.resolve_topic_name(topic)
    sides = [
        f"{full_name(there)} has {_difference(there.qos_profile, here)}"
        for there in others(mismatch)
    ]
    what = "subscribes to what is not offered here and gets" if publishes else "offers too little"
    end = "nothing" if publishes else "and is not heard"
    who = "; ".join(sides) or "somebody, by deadline or liveliness"
    return f"{full}: {who}: {what} {end} (quality of service)"


def full_name(endpoint: Any) -> str:
    """Return the full name of the node of a publisher or a subscription."""
    return f"{endpoint.node_namespace.rstrip('/')}/{endpoint.node_name}"


def is_known(endpoint: Any) -> bool:
    """Whether the node of a publisher or a subscription has been heard of yet."""
    return _UNKNOWN not in endpoint.node_name + endpoint.node_namespace


def _difference(there: QoSProfile, here: QoSProfile) -> str:
    pairs = ((name, getattr(there, name), getattr(here, name)) for name, *_ in POLICIES)
    return ", ".join(
        f"{name} {one.name} instead of {other.name}" for name, one, other in pairs if one != other
    )
