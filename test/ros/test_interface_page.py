# SPDX-License-Identifier: Apache-2.0
"""doc/ros_interface.md lists exactly the topics, services and actions of a node."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from rclpy.action import get_action_server_names_and_types_by_node
from rclpy.node import NodeNameNonExistentError

pytestmark = pytest.mark.node

PAGE = Path(__file__).resolve().parents[2] / "doc" / "ros_interface.md"
SPAWNING = {
    f"simulation_interfaces/srv/{of}" for of in ("SpawnEntity", "DeleteEntity", "GetSpawnables")
}
IS_THERE = find_spec("simulation_interfaces.srv._spawn_entity") is not None
NOT_OURS = re.compile(r"/_action/|parameter|/rosout|type_description|logger_level")


def listed(kind):
    """Return name and type of every row of one kind, for the arms and objects of the cell."""
    others = r"## (?:Cameras|Arms on springs|Tasks).*?(?=\n## )"
    text = re.sub(others, "", PAGE.read_text(), flags=re.S)
    rows = re.findall(rf"^\| `([\w/<>]+)` \| `(\w+/{kind}/\w+)`", text, re.M)
    found = {}
    for name, of in rows:
        if of in SPAWNING and not IS_THERE:
            continue
        managed = name.startswith("controller_manager/")
        for one in (name, f"<arm>/{name}") if managed else (name,):
            for arm in ("left", "right"):
                here = one.replace("<arm>", arm).replace("<object>", "box")
                found["/" + here.lstrip("/")] = of
    return found


def offered(client, *queries):
    """Return the endpoints of all nodes except the test's own, which also uses other cells."""
    node, found = client.node, {}
    for name, namespace in node.get_node_names_and_namespaces():
        if name == node.get_name():
            continue
        with suppress(NodeNameNonExistentError):
            for query in queries:
                found.update({one: types[0] for one, types in query(name, namespace)})
    return {name: of for name, of in found.items() if not NOT_OURS.search(name)}


def compare(client, kind, *queries):
    page, observed = listed(kind), {}

    def complete():
        observed.clear()
        observed.update(offered(client, *queries))
        return page.items() <= observed.items()

    client.until(complete, 10.0, f"entries of the page: {sorted(page.items() - observed.items())}")
    assert sorted(observed.keys() - page.keys()) == []


def test_topics(cell, client):
    node = client.node
    compare(
        client,
        "msg",
        node.get_publisher_names_and_types_by_node,
        node.get_subscriber_names_and_types_by_node,
    )


def test_services(cell, client):
    compare(client, "srv", client.node.get_service_names_and_types_by_node)


def test_actions(cell, client):
    compare(client, "action", partial(get_action_server_names_and_types_by_node, client.node))
