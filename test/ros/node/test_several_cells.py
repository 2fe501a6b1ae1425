# SPDX-License-Identifier: Apache-2.0
"""Several cells on one network: separated by namespace or domain, with unique names."""

from __future__ import annotations

import os
import signal
import time

import pytest
import rclpy
from cell_names import CARTESIAN
from claims import claim_domain
from geometry_msgs.msg import PoseStamped
from processes import TIMEOUT_SCALE
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor

from multipanda_py.ros.node.graph_watch import DISCOVERY_TIMEOUT

pytestmark = [pytest.mark.clock, pytest.mark.node]


@pytest.fixture
def pair(start):
    """Two cells in two namespaces on one domain."""
    nodes = [start(remap=[f"__ns:=/{space}"]) for space in ("north", "south")]
    return [node.wait_for("is active") for node in nodes]


def height(client, space):
    return client.newest(PoseStamped, f"/{space}/left/current_pose").pose.position.z


@pytest.mark.long
def test_two_namespaces_are_independent(pair, client):
    assert client.switch([CARTESIAN], (), 4, "/north/left").ok
    target = client.newest(PoseStamped, "/north/left/current_pose")
    target.header.stamp.sec = target.header.stamp.nanosec = 0
    target.pose.position.z += 0.05
    goal, other = target.pose.position.z, height(client, "south")
    client.stream(
        "/north/left/target_pose",
        target,
        lambda: abs(height(client, "north") - goal) < 0.01,
        "the arm of north",
    )
    assert abs(height(client, "south") - other) < 1e-3
    for node, space in zip(pair, ("north", "south")):
        assert "controller_manager" not in node.log
        status, values = client.diagnosis(node.name)
        assert values["names taken twice"] == "none", status
        assert client.diagnosis(f"{node.name}/left")[1]["target messages"] != "0" or (
            space == "south"
        )
    assert client.diagnosis(f"{pair[1].name}/left")[1]["target messages"] == "0"


@pytest.mark.long
@pytest.mark.timeout(400)  # three consecutive starts
def test_second_cell_is_rejected_unless_first_one_was_killed(start, client):
    first = start(remap=["__ns:=/taken"]).wait_for("is active")
    established = time.monotonic() + DISCOVERY_TIMEOUT
    client.until(lambda: time.monotonic() > established, what="end of the discovery period")
    second = start(remap=["__ns:=/taken"])
    assert second.process.wait(TIMEOUT_SCALE * 60.0) == 1
    assert "FATAL" not in second.log.partition("/taken/controller_manager")[2]
    assert (
        "/taken/left/controller_manager, /taken/right/controller_manager: is there" in second.log
    )
    assert f"ROS domain {os.environ['ROS_DOMAIN_ID']}" in second.log
    assert "-r __ns:=/NAME" in second.log
    assert "Traceback" not in second.log
    assert first.process.poll() is None
    assert first.end(signal.SIGKILL) == -signal.SIGKILL  # still listed for some seconds
    third = start(remap=["__ns:=/taken"]).wait_for("is active")
    assert "another node has this name" not in third.log


@pytest.mark.long
def test_later_controller_manager_causes_warning(cell, client):
    established = time.monotonic() + DISCOVERY_TIMEOUT  # at the latest
    client.until(lambda: time.monotonic() > established, what="end of the discovery period")
    intruder = rclpy.create_node("controller_manager", namespace="left")
    try:
        words = "/left/controller_manager: another node has this name"
        client.until(lambda: words in cell.log, what=words)
        client.until(
            lambda: (
                client.diagnosis(cell.name)[1]["names taken twice"] == "/left/controller_manager"
            ),
            what="the conflict in diagnostics",
        )
    finally:
        intruder.destroy_node()
    client.until(
        lambda: client.diagnosis(cell.name)[1]["names taken twice"] == "none", what="no conflict"
    )


@pytest.mark.long
def test_same_names_in_two_domains_are_independent(cell, start, client):
    domain = claim_domain()
    start(remap=["__ns:=/"], domain=domain).wait_for("is active")
    context = Context()
    rclpy.init(context=context, domain_id=domain)
    there = rclpy.create_node("there", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(there)
    try:
        for node in (client.node, there):  # each sees one of them
            client.until(
                lambda node=node: node.count_publishers("/left/current_pose") == 1,
                what="the cell of the same domain",
            )
        names = client.node.get_node_names_and_namespaces()
        assert names.count(("multimode_controller", "/")) == 1
    finally:
        executor.shutdown()
        there.destroy_node()
        rclpy.shutdown(context=context)
