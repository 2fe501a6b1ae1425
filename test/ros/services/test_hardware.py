# SPDX-License-Identifier: Apache-2.0
"""Controller manager node: hardware components, types and names for spawners."""

from __future__ import annotations

import time

import pytest
from cell_names import CARTESIAN, DUAL, JOINT
from controller_manager_msgs.srv import (
    CleanupController,
    ConfigureController,
    ListControllers,
    ListControllerTypes,
    ListHardwareComponents,
    ListHardwareInterfaces,
    LoadController,
    ReloadControllerLibraries,
    SetHardwareComponentState,
    UnloadController,
)
from lifecycle_msgs.msg import State
from rcl_interfaces.srv import GetParameters

pytestmark = pytest.mark.node

BEST_EFFORT, STRICT = 1, 2
INACTIVE = State(id=State.PRIMARY_STATE_INACTIVE)
ACTIVE = State(label="active")
BROADCASTER = "joint_state_broadcaster"


def ask(client, kind, name, namespace="", /, **fields):
    return client.call(kind, f"{namespace}/controller_manager/{name}", **fields)


def components(client, namespace=""):
    answer = ask(client, ListHardwareComponents, "list_hardware_components", namespace)
    return {component.name: component for component in answer.component}


def set_state(client, arm, state, namespace=""):
    name = "set_hardware_component_state"
    return ask(
        client, SetHardwareComponentState, name, namespace, name=arm, target_state=state
    )  # fmt: skip


def states(client):
    answer = ask(client, ListControllers, "list_controllers")
    return {controller.name: controller.state for controller in answer.controller}


@pytest.fixture
def awake(cell, client):
    yield cell
    for arm in ("left", "right"):
        assert set_state(client, arm, ACTIVE).ok


def test_every_arm_is_component_with_its_interfaces(cell, client):
    found = components(client)
    assert list(found) == ["left", "right"]
    left = found["left"]
    assert (left.type, left.plugin_name, left.rw_rate) == ("system", "mujoco", 1000)
    assert (left.state.id, left.state.label) == (State.PRIMARY_STATE_ACTIVE, "active")
    effort = {one.name: one for one in left.command_interfaces}["left_fr3_joint1/effort"]
    assert (effort.is_available, effort.is_claimed) == (True, True)
    assert sum(one.is_claimed for one in left.command_interfaces) == 7
    names = [one.name for one in left.state_interfaces]
    assert names[:3] == [f"left_fr3_joint1/{kind}" for kind in ("position", "velocity", "effort")]
    assert len(names) == 21
    assert list(components(client, "/left")) == ["left"]
    listed = ask(client, ListHardwareInterfaces, "list_hardware_interfaces")
    assert len(listed.state_interfaces) == 42


def test_inactive_arm_holds_and_accepts_no_controllet_until_active(awake, client):
    answer = set_state(client, "left", INACTIVE)
    assert (answer.ok, answer.state.label) == (True, "inactive")
    now = states(client)
    assert now["left/hold"] == now[f"right/{CARTESIAN}"] == "active"
    assert not any(one.is_available for one in components(client)["left"].command_interfaces)
    for name in (f"left/{JOINT}", DUAL):
        refused = client.switch([name], [f"right/{CARTESIAN}"], STRICT)
        assert not refused.ok
        assert f"{name}: arm left " in refused.message
    assert states(client) == now
    assert set_state(client, "left", ACTIVE, "/left").ok
    assert components(client)["left"].state.label == "active"
    assert states(client) == now, "activation starts no controllet"
    assert client.switch([f"left/{JOINT}"], (), STRICT).ok


def test_both_arms_of_dual_controllet_hold_when_one_deactivates(awake, client):
    assert client.switch([DUAL], strictness=4).ok
    assert set_state(client, "right", INACTIVE).ok
    now = states(client)
    assert (now[DUAL], now["left/hold"], now["right/hold"]) == ("inactive", "active", "active")


def test_impossible_state_is_rejected_without_effect(cell, client):
    before = states(client)
    for number in (State.PRIMARY_STATE_UNCONFIGURED, State.PRIMARY_STATE_FINALIZED, 77):
        answer = set_state(client, "left", State(id=number))
        assert (answer.ok, answer.state.label) == (False, "active")
    assert not set_state(client, "middle", INACTIVE).ok
    assert not set_state(client, "right", INACTIVE, "/left").ok
    cell.wait_for("'middle': does not exist; known: left, right")
    cell.wait_for("left: cannot become finalized, allowed inactive or active")
    assert states(client) == before


def test_types_and_parameters_of_controller_manager(cell, client):
    answer = ask(client, ListControllerTypes, "list_controller_types")
    assert {"joint_trajectory", "cartesian_impedance", "hold"} <= set(answer.types)
    assert len(answer.base_classes) == len(answer.types)
    values = client.call(
        GetParameters,
        "/left/controller_manager/get_parameters",
        names=["update_rate", f"{JOINT}.type"],
    ).values
    assert values[0].integer_value == 1000
    assert values[1].string_value == "joint_impedance"
    everyone = client.node.get_node_names_and_namespaces()
    for namespace in ("/", "/left", "/right"):
        assert ("controller_manager", namespace) in everyone
    offered = dict(
        client.node.get_service_names_and_types_by_node("controller_manager", "/right")
    )  # required by spawners of older distributions
    assert "/right/controller_manager/list_controllers" in offered


def test_joint_state_broadcaster_can_be_spawned_and_stays_active(cell, client):
    assert states(client)[BROADCASTER] == "active"
    for kind, name in ((LoadController, "load"), (ConfigureController, "configure")):
        assert ask(client, kind, f"{name}_controller", name=BROADCASTER).ok
    assert client.switch([BROADCASTER], (), STRICT).ok
    assert client.switch([BROADCASTER, JOINT], [CARTESIAN], STRICT, "/left").ok
    refused = client.switch((), [BROADCASTER], STRICT)
    assert (refused.ok, refused.message) == (
        False, f"{BROADCASTER}: joint states are always published"
    )  # fmt: skip
    assert not ask(client, UnloadController, "unload_controller", name=BROADCASTER).ok
    assert states(client)[BROADCASTER] == "active"


def test_cleanup_and_reload(cell, client):
    name = f"left/{JOINT}"
    assert ask(client, CleanupController, "cleanup_controller", name=name).ok
    assert states(client)[name] == "unconfigured"
    assert not ask(client, CleanupController, "cleanup_controller", name=f"left/{CARTESIAN}").ok
    assert ask(client, ConfigureController, "configure_controller", name=name).ok
    before = states(client)
    for force in (False, True):
        reload = ask(
            client, ReloadControllerLibraries, "reload_controller_libraries", force_kill=force
        )
        assert not reload.ok
    assert states(client) == before


def test_every_service_responds_within_one_second(awake, client):
    requests = [
        (ListControllers, "list_controllers", {}),
        (ListControllerTypes, "list_controller_types", {}),
        (ListHardwareComponents, "list_hardware_components", {}),
        (ListHardwareInterfaces, "list_hardware_interfaces", {}),
        (ReloadControllerLibraries, "reload_controller_libraries", {"force_kill": True}),
        (LoadController, "load_controller", {"name": "nobody"}),
        (ConfigureController, "configure_controller", {"name": "nobody"}),
        (CleanupController, "cleanup_controller", {"name": "nobody"}),
        (UnloadController, "unload_controller", {"name": "nobody"}),
        (SetHardwareComponentState, "set_hardware_component_state",
         {"name": "left", "target_state": INACTIVE}),
        (SetHardwareComponentState, "set_hardware_component_state",
         {"name": "left", "target_state": ACTIVE}),
    ]  # fmt: skip
    for kind, name, fields in requests:
        ask(client, kind, name, **fields)  # the first call includes discovery
        requested = time.monotonic()
        ask(client, kind, name, **fields)
        assert time.monotonic() - requested < 1.0, name
