# SPDX-License-Identifier: Apache-2.0
"""doc/ros_interface.md lists what a node offers, with its types, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from rclpy.action import get_action_names_and_types

PAGE = Path(__file__).resolve().parents[2] / "doc" / "ros_interface.md"
NOT_OURS = re.compile(r"/_action/|parameter|/rosout|type_description|logger_level")


def listed(kind):
    """Return name and type of every row of one kind, for the arms and things of the cell."""
    rows = re.findall(rf"^\| `([\w/<>]+)` \| `(\w+/{kind}/\w+)`", PAGE.read_text(), re.M)
    found = {}
    for name, of in rows:
        managed = name.startswith("controller_manager/")
        for one in (name, f"<arm>/{name}") if managed else (name,):
            for arm in ("left", "right"):
                here = one.replace("<arm>", arm).replace("<thing>", "box")
                found["/" + here.lstrip("/")] = of
    return found


def compare(client, kind, ask):
    page, seen = listed(kind), {}

    def complete():
        seen.clear()
        seen.update({name: types[0] for name, types in ask() if not NOT_OURS.search(name)})
        return page.items() <= seen.items()

    client.until(complete, 10.0, f"what the page lists: {sorted(page.items() - seen.items())}")
    assert sorted(seen.keys() - page.keys()) == []


def test_topics(cell, client):
    compare(client, "msg", client.node.get_topic_names_and_types)


def test_services(cell, client):
    compare(client, "srv", client.node.get_service_names_and_types)


def test_actions(cell, client):
    compare(client, "action", lambda: get_action_names_and_types(client.node))
