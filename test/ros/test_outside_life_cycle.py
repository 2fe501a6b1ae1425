# SPDX-License-Identifier: Apache-2.0
"""``ros2 lifecycle``, unmodified, on a cell."""

from __future__ import annotations

import pytest
from outside import require_clients

require_clients()

pytestmark = [pytest.mark.clock, pytest.mark.node]


@pytest.mark.timeout(400)
def test_ros2_lifecycle_transitions_of_cell(cell, client, outside):
    node = "/multimode_controller"
    states = []

    def found():  # a new daemon has not discovered the node yet
        if states:  # a daemon that lost an announcement needs a restart
            outside.ros2("daemon stop")
        states[:] = outside.ros2("lifecycle nodes", f"lifecycle get {node}")
        return node in states[0] and "active [3]" in states[1]

    client.until(found, 40.0, "the node, by ros2 lifecycle")
    reported = outside.ros2(
        f"lifecycle list {node}",
        f"lifecycle set {node} deactivate",
        f"lifecycle get {node}",
        f"lifecycle set {node} configure",
        f"lifecycle set {node} activate",
        f"lifecycle get {node}",
    )
    assert "deactivate" in reported[0]
    assert "shutdown" in reported[0]
    assert "Transitioning successful" in reported[1]
    assert "inactive [2]" in reported[2]
    assert "Transitioning successful" not in reported[3], "already configured"
    assert "Transitioning successful" in reported[4]
    assert "active [3]" in reported[5]
