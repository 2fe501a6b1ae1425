# SPDX-License-Identifier: Apache-2.0
"""Fault of one arm: reported, confined to that arm and cleared on request."""

from __future__ import annotations

import pytest
from cell_names import JOINT
from controller_manager_msgs.srv import (
    ListControllers,
    ListHardwareComponents,
    SetHardwareComponentState,
)
from diagnostic_msgs.msg import DiagnosticStatus
from lifecycle_msgs.msg import State
from rcl_interfaces.srv import SetParametersAtomically
from rclpy.parameter import Parameter
from repository import DUAL_SIM
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger

from multipanda_py.cell.checks import notes_of
from multipanda_py.config.cell_file import CellConfig

pytestmark = [pytest.mark.clock, pytest.mark.node]

UNDAMPED = {
    "stiffness": [200.0] * 5 + [165.0, 66.0],
    "damping_ratio": [0.3] * 7,
    "governor.enabled": False,
}


def owners(client, arm):
    service = f"/fault/{arm}/controller_manager/list_controllers"
    return {
        c.name for c in client.call(ListControllers, service).controller if c.claimed_interfaces
    }


def component_states(client):
    service = "/fault/controller_manager/list_hardware_components"
    answer = client.call(ListHardwareComponents, service)
    return {component.name: component.state.label for component in answer.component}


def swing(client, until):
    """Drive the last joint of the left arm beyond its velocity limit."""
    parameters = [Parameter(name, value=x).to_parameter_msg() for name, x in UNDAMPED.items()]
    service = f"/fault/left/{JOINT}/set_parameters_atomically"
    assert client.call(SetParametersAtomically, service, parameters=parameters).result.successful
    assert client.switch([JOINT], (), 4, "/fault/left").ok
    now = client.newest(JointState, "/fault/left/joint_states")
    position = [*now.position[:6], now.position[6] + 0.35]
    target = JointState(name=now.name, position=position)
    client.stream("/fault/left/target_joint", target, until, "fault")


def test_fault_is_confined_reported_and_cleared(start, client):
    node = start(remap=["__ns:=/fault"]).wait_for("is active")
    hardware = f"{node.name}/left"
    swing(client, lambda: client.diagnosis(hardware)[0].level == DiagnosticStatus.ERROR)
    status, values = client.diagnosis(hardware)
    assert status.message == "latched fault: velocity_limit"
    assert values["owner"] == "left/hold"
    assert f"velocity_limit (left, left/{JOINT}): joint 7 " in node.log
    assert owners(client, "left") == {"hold"}
    assert owners(client, "right") == {"cartesian_impedance_controller"}

    refused = client.switch([JOINT], (), 4, "/fault/left")
    assert not refused.ok
    assert "call left/error_recovery first" in refused.message

    assert client.call(Trigger, "/fault/right/error_recovery").message == "no fault on right"
    answer = client.call(Trigger, "/fault/left/error_recovery")
    assert answer.success
    assert answer.message.startswith("left: velocity_limit ")
    assert client.switch(["cartesian_impedance_controller"], (), 4, "/fault/left").ok
    service = "/fault/left/controller_manager/switch_controller"
    node.wait_for(f"requested by service {service}")
    for note in notes_of(CellConfig.from_yaml(DUAL_SIM)):
        assert note in node.log

    swing(client, lambda: component_states(client)["left"] == "inactive")
    assert component_states(client)["right"] == "active"
    still = client.listen(JointState, "/fault/left/joint_states")
    client.until(lambda: max(map(abs, still().velocity)) < 0.1, 10.0, "rest")
    service = "/fault/controller_manager/set_hardware_component_state"
    answer = client.call(
        SetHardwareComponentState, service, name="left", target_state=State(label="active")
    )
    assert answer.ok, node.log
    assert component_states(client)["left"] == "active"
    assert owners(client, "left") == {"hold"}, "no controllet resumes automatically"
