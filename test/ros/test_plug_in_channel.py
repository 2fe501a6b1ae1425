# SPDX-License-Identifier: Apache-2.0
"""Channels of a plug-in are topics of the node with the usual checks and counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from geometry_msgs.msg import Vector3Stamped
from std_msgs.msg import Float64MultiArray

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def node(tmp_path_factory, node_process):
    process = node_process(
        tmp_path_factory.mktemp("own"),
        file=Path(__file__).parent / "own_channel_cell.yaml",
        remap=["__ns:=/own"],
    )
    process.wait_for("is active")
    yield process
    process.end()


def force(node, client):
    return float(client.diagnosis(f"{node.name}/left/tugged")[1]["force [N]"])


def test_number_list_reaches_controllet(node, client):
    client.stream(
        "/own/left/target_tug",
        Float64MultiArray(data=[0.3, 0.0, 0.4]),
        lambda: force(node, client) == pytest.approx(0.5, abs=1e-3),
        "half a newton",
    )
    client.stream(
        "/own/left/target_tug",
        Float64MultiArray(data=[0.0] * 3),
        lambda: force(node, client) == 0.0,
        "none",
    )


def test_custom_message_type_reaches_controllet(node, client):
    message = Vector3Stamped()
    message.header.frame_id = "world"
    message.vector.x = 0.25
    client.stream(
        "/own/left/target_tip_force",
        message,
        lambda: force(node, client) == pytest.approx(0.25, abs=1e-3),
        "a quarter of a newton",
    )


@pytest.mark.parametrize(
    ("data", "reason"), [([30.0, 0.0, 0.0], "tug: got [30.0"), ([1.0], "allowed 3 finite")]
)
def test_gate_rejection_is_counted(node, client, data, reason):
    before = int(client.diagnosis(f"{node.name}/left")[1]["rejected targets"])

    def observed():
        status = client.diagnosis(f"{node.name}/left")[1]
        return int(status["rejected targets"]) > before and reason in status["last rejection"]

    client.stream("/own/left/target_tug", Float64MultiArray(data=data), observed, reason)
