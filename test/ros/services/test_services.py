# SPDX-License-Identifier: Apache-2.0
"""The controller manager's services, for the cell and for one arm."""

from __future__ import annotations

import re

import pytest
from cell_names import CARTESIAN, DUAL, JOINT, TRAJECTORY
from controller_manager_msgs.srv import (
    ConfigureController,
    ListControllers,
    LoadController,
    UnloadController,
)
from std_srvs.srv import Trigger

pytestmark = [pytest.mark.node, pytest.mark.workspace]

BEST_EFFORT, STRICT, AUTO, FORCE_AUTO = 1, 2, 3, 4


def listed(client, namespace=""):
    answer = client.call(ListControllers, f"{namespace}/controller_manager/list_controllers")
    return {controller.name: controller for controller in answer.controller}


def states(client, namespace=""):
    return {name: info.state for name, info in listed(client, namespace).items()}


def test_list_of_cell_has_full_names(cell, client):
    assert states(client) == {
        "left/hold": "inactive",
        "right/hold": "inactive",
        f"left/{CARTESIAN}": "active",
        f"right/{CARTESIAN}": "active",
        f"left/{JOINT}": "inactive",
        f"right/{JOINT}": "inactive",
        f"left/{TRAJECTORY}": "inactive",
        f"right/{TRAJECTORY}": "inactive",
        DUAL: "inactive",
        "joint_state_broadcaster": "active",
        "left/gripper": "active",
        "right/gripper": "active",
    }


def test_list_of_arm_has_only_its_short_names(cell, client):
    assert states(client, "/left") == {
        "hold": "inactive", CARTESIAN: "active", JOINT: "inactive", TRAJECTORY: "inactive",
        "joint_state_broadcaster": "active", "gripper": "active",
    }  # fmt: skip


def test_list_describes_claimed_interfaces(cell, client):
    efforts = [f"left_fr3_joint{number}/effort" for number in range(1, 8)]
    found = listed(client, "/left")
    active, idle = found[CARTESIAN], found[JOINT]
    assert active.type == "cartesian_impedance"
    assert list(active.claimed_interfaces) == efforts
    assert list(idle.claimed_interfaces) == []
    assert list(idle.required_command_interfaces) == efforts
    assert active.update_rate == 1000
    assert not active.is_async
    assert len(listed(client)[DUAL].required_command_interfaces) == 14


def test_switch_of_one_arm_by_short_name(cell, client):
    answer = client.switch([JOINT], [CARTESIAN], STRICT, "/left")
    assert answer.ok, answer.message
    assert f"active: left/{JOINT}" in answer.message
    assert f"deactivated: left/{CARTESIAN}" in answer.message
    assert re.search(r"\d ms\b", answer.message)
    now = states(client)
    assert now[f"left/{JOINT}"] == now[f"right/{CARTESIAN}"] == "active"
    assert now[f"left/{CARTESIAN}"] == "inactive"


def test_deactivated_arm_holds(cell, client):
    assert client.switch((), [CARTESIAN], STRICT, "/right").ok
    assert states(client, "/right")["hold"] == "active"


@pytest.mark.parametrize("strictness", [STRICT, AUTO])
def test_conflict_rejects_whole_switch(cell, client, strictness):
    before = states(client)
    answer = client.switch([f"left/{JOINT}"], [f"right/{CARTESIAN}"], strictness)
    assert not answer.ok
    assert "conflicts with" in answer.message
    assert "arm left" in answer.message
    assert states(client) == before


@pytest.mark.parametrize("strictness", [0, BEST_EFFORT])
def test_best_effort_was_rejected_although_part_was_switched(cell, client, strictness):
    """A rejection means no change; the message reports a partial switch."""
    before = states(client)
    answer = client.switch([f"left/{JOINT}"], [f"right/{CARTESIAN}"], strictness)
    assert not answer.ok
    assert f"FORCE_AUTO) would deactivate left/{CARTESIAN}" in answer.message
    assert states(client) == before
    requested = [f"left/{JOINT}", f"right/{JOINT}"]
    answer = client.switch(requested, [f"right/{CARTESIAN}"], strictness)
    assert answer.ok
    assert answer.message.startswith(f"not active: left/{JOINT}; active: right/{JOINT}; ")
    now = states(client)
    assert now[f"right/{JOINT}"] == now[f"left/{CARTESIAN}"] == "active"


def test_force_auto_takes_arm_from_shared_controllet(cell, client):
    assert client.switch([DUAL], (), FORCE_AUTO).ok
    assert states(client)[DUAL] == "active"
    answer = client.switch([CARTESIAN], (), FORCE_AUTO, "/left")
    assert answer.ok, answer.message
    now = states(client)
    assert now[f"left/{CARTESIAN}"] == now["right/hold"] == "active"
    assert now[DUAL] == "inactive"


def test_auto_accepts_states_that_are_already_reached(cell, client):
    assert not client.switch([f"left/{CARTESIAN}"], (), STRICT).ok
    assert client.switch([f"left/{CARTESIAN}"], (), AUTO).ok


def test_unknown_strictness_and_names_are_rejected_with_reason(cell, client):
    answer = client.switch([f"left/{JOINT}"], (), 9)
    assert not answer.ok
    assert "got 9" in answer.message
    assert "force_auto" in answer.message
    answer = client.switch(["left/no_such"], (), STRICT)
    assert not answer.ok
    assert "left/no_such: " in answer.message
    assert "does not exist" in client.switch([DUAL], (), STRICT, "/left").message


def test_unload_load_configure(cell, client):
    name, manager = f"right/{JOINT}", "/controller_manager"
    assert not client.call(LoadController, f"{manager}/load_controller", name=name).ok
    assert client.call(UnloadController, f"{manager}/unload_controller", name=name).ok
    assert name not in states(client)
    assert not client.switch([name], (), FORCE_AUTO).ok
    assert not client.call(ConfigureController, f"{manager}/configure_controller", name=name).ok
    assert client.call(LoadController, f"{manager}/load_controller", name=name).ok
    assert states(client)[name] == "unconfigured"
    assert not client.switch([name], (), FORCE_AUTO).ok
    assert client.call(ConfigureController, f"{manager}/configure_controller", name=name).ok
    assert states(client)[name] == "inactive"
    assert client.switch([name], (), FORCE_AUTO).ok
    assert not client.call(UnloadController, f"{manager}/unload_controller", name=name).ok
    assert not client.call(UnloadController, f"{manager}/unload_controller", name="nothing").ok


def test_services_of_arm_do_not_reach_other_arms(cell, client):
    manager = "/left/controller_manager"
    for name in (DUAL, f"right/{JOINT}", f"left/{JOINT}"):
        assert not client.call(UnloadController, f"{manager}/unload_controller", name=name).ok
    assert client.call(UnloadController, f"{manager}/unload_controller", name=JOINT).ok
    assert client.call(LoadController, f"{manager}/load_controller", name=JOINT).ok
    assert client.call(ConfigureController, f"{manager}/configure_controller", name=JOINT).ok


def test_stop_puts_every_arm_in_hold(cell, client):
    answer = client.call(Trigger, "/stop")
    assert answer.success
    assert f"left/{CARTESIAN}" in answer.message
    now = states(client)
    assert now["left/hold"] == now["right/hold"] == "active"
    assert client.call(Trigger, "/stop").success


def test_recovery_without_fault_reports_no_fault(cell, client):
    answer = client.call(Trigger, "/error_recovery")
    assert (answer.success, answer.message) == (True, "no fault on left, right")
    assert client.call(Trigger, "/left/error_recovery").message == "no fault on left"
