# SPDX-License-Identifier: Apache-2.0
"""Stamps of measured messages are the time of the measurement."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest
from rclpy.qos import QoSProfile

pytestmark = [pytest.mark.clock, pytest.mark.node]

PAGE = Path(__file__).resolve().parents[2] / "doc" / "ros_interface.md"
NOT_MEASURED = {"/tf_static", "/diagnostics", "introspection_data/names"}


def measured():
    """Yield topic and type of the periodic messages with a stamp."""
    part = PAGE.read_text().split("## Topics sent")[1].split("\n## ")[0]
    for name, package, kind in re.findall(r"^\| `([\w/<>]+)` \| `(\w+)/msg/(\w+)`", part, re.M):
        found = getattr(import_module(f"{package}.msg"), kind)
        if name not in NOT_MEASURED and {"header", "transforms"} & set(dir(found)):
            topic = "/" + name.replace("<arm>", "left").replace("<object>", "box").lstrip("/")
            yield topic, found


def test_messages_of_one_cycle_have_one_stamp(cell, client):
    topics, stamps, subscriptions = dict(measured()), {}, []
    assert len(topics) >= 8
    for topic, kind in topics.items():
        observed = stamps[topic] = set()

        def keep(message, observed=observed):
            parts = message.transforms if hasattr(message, "transforms") else [message]
            observed.update((one.header.stamp.sec, one.header.stamp.nanosec) for one in parts)

        subscriptions.append(
            client.node.create_subscription(kind, topic, keep, QoSProfile(depth=50))
        )
    try:
        client.until(
            lambda: set.intersection(*stamps.values()),
            20.0,
            "a stamp that all topics share",
        )
    finally:
        for one in subscriptions:
            client.node.destroy_subscription(one)
