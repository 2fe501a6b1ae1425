# SPDX-License-Identifier: Apache-2.0
"""Life cycle of a cell under a supervisor: unconfigured, inactive, active and back."""

from __future__ import annotations

import pytest
from cell_names import LEFT_CARTESIAN
from controller_manager_msgs.srv import ListControllers
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetAvailableTransitions, GetState
from processes import children

pytestmark = pytest.mark.node


@pytest.fixture
def managed(start):
    """A node that waits for its supervisor."""
    return start("autostart:=false", remap=["__ns:=/managed"]).wait_for("autostart is false")


def change(client, label, space="/managed"):
    name = f"{space}/multimode_controller/change_state"
    return client.call(ChangeState, name, transition=Transition(label=label)).success


def state(client, space="/managed"):
    return client.call(GetState, f"{space}/multimode_controller/get_state").current_state.label


def transitions(client):
    name = "/managed/multimode_controller/get_available_transitions"
    found = client.call(GetAvailableTransitions, name).available_transitions
    return {one.transition.label for one in found}


def active(client):
    name = "/managed/controller_manager/list_controllers"
    found = client.call(ListControllers, name).controller
    return {one.name for one in found if one.state == "active"}


@pytest.mark.slow
@pytest.mark.timeout(400)  # three consecutive starts
def test_transitions_of_managed_cell(managed, client):
    assert state(client) == "unconfigured"
    assert transitions(client) == {"configure", "shutdown"}
    assert not children(managed.process.pid), "loop without a cell"
    assert not change(client, "activate")
    assert "'activate' while unconfigured" in managed.log
    assert change(client, "configure")
    assert (state(client), LEFT_CARTESIAN in active(client)) == ("inactive", False)
    assert not client.switch([LEFT_CARTESIAN], namespace="/managed").ok
    assert change(client, "activate")
    assert (state(client), LEFT_CARTESIAN in active(client)) == ("active", True), managed.log
    first = managed.loop_pid()
    at = client.newest(PoseStamped, "/managed/left/current_pose").pose.position.z
    assert change(client, "deactivate")
    assert (state(client), LEFT_CARTESIAN in active(client)) == ("inactive", False)
    assert "no: it is inactive" in str(client.diagnosis(f"{managed.name}/left"))
    after = client.newest(PoseStamped, "/managed/left/current_pose").pose.position.z
    assert abs(after - at) < 2e-3, "the arm holds"
    assert change(client, "cleanup")
    assert state(client) == "unconfigured"
    managed.wait_for_end_of(first)
    assert change(client, "configure")
    name = "/managed/multimode_controller/change_state"
    activate = Transition(id=Transition.TRANSITION_ACTIVATE)  # without a label
    assert client.call(ChangeState, name, transition=activate).success
    assert LEFT_CARTESIAN in active(client), managed.log
    assert managed.loop_pid() != first
    assert change(client, "shutdown")
    assert managed.process.wait(30.0) == 0
    assert "Traceback" not in managed.log


def test_invalid_cell_is_reported_and_stays_unconfigured(start, client):
    space = "/unfit"
    node = start("autostart:=false", "cell.rate:=-5.0", remap=[f"__ns:={space}"])
    node.wait_for("autostart is false")
    assert not change(client, "configure", space)
    assert "not configured: cell: cell.rate" in node.log
    assert state(client, space) == "unconfigured"
    assert change(client, "shutdown", space)
    assert node.process.wait(30.0) == 0


def test_node_without_supervisor_becomes_active(cell, client):
    assert state(client, "") == "active"
