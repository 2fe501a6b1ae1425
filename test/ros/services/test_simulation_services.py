# SPDX-License-Identifier: Apache-2.0
"""The simulated world through the services of simulation_interfaces."""

from __future__ import annotations

import pytest
from builtin_interfaces.msg import Duration
from controller_manager_msgs.srv import SwitchController
from geometry_msgs.msg import PoseStamped
from rclpy.time import Time
from sensor_msgs.msg import JointState
from simulation_interfaces.msg import EntityState, Result, SimulationState
from simulation_interfaces.srv import (
    GetEntityState,
    GetSimulationState,
    SetEntityState,
    SetSimulationState,
    StepSimulation,
)

pytestmark = pytest.mark.node

OK = Result.RESULT_OK


@pytest.fixture
def paused(cell, client):
    def to(state):
        expected = SimulationState(state=state)
        answer = client.call(SetSimulationState, "/set_simulation_state", state=expected)
        assert answer.result.result == OK, answer.result.error_message

    to(SimulationState.STATE_PAUSED)
    yield cell
    to(SimulationState.STATE_PLAYING)
    client.newest(JointState, "/joint_states")


def test_step_of_paused_world_publishes_state(paused, client):
    now = client.call(GetSimulationState, "/get_simulation_state")
    assert now.state.state == SimulationState.STATE_PAUSED
    state = client.listen(JointState, "/left/joint_states")
    client.until(
        lambda: "paused" in client.diagnosis(paused.name)[0].message,
        what="the pause in diagnostics",
    )
    before = state()
    answer = client.call(
        SwitchController,
        "/controller_manager/switch_controller",
        deactivate_controllers=["left/cartesian_impedance_controller"],
        strictness=2,
        timeout=Duration(nanosec=100_000_000),
    )
    assert "within 0.1 s" in answer.message
    answer = client.call(StepSimulation, "/step_simulation", steps=2**63)
    assert "steps: got 9223372036854775808" in answer.result.error_message
    answer = client.call(StepSimulation, "/step_simulation", steps=3)
    assert answer.result.result == OK, answer.result.error_message
    client.until(lambda: state() is not before, what="the state after the steps")
    assert Time.from_msg(state().header.stamp).nanoseconds > 0


def test_object_is_moved_by_service(paused, client):
    def put(entity, frame="world", **coordinates):
        state = EntityState()
        state.header.frame_id = frame
        state.pose.position.x, state.pose.position.z = (
            coordinates.get("x", 0.1),
            coordinates.get("z", 1.5),
        )
        state.pose.position.y = coordinates.get("y", 0.0)
        state.pose.orientation.w = coordinates.get("w", 1.0)
        return client.call(SetEntityState, "/set_entity_state", entity=entity, state=state).result

    assert put("table").result == Result.RESULT_NOT_FOUND
    assert "header.frame_id: got 'map'" in put("box", "map").error_message
    inside = put("box", z=0.1, x=0.0, y=0.3)  # in the left base; once ejected the box
    assert inside.result == SetEntityState.Response.INVALID_POSE
    assert "move: box " in inside.error_message
    assert put("box", w=0.0).result == SetEntityState.Response.INVALID_POSE
    before = client.call(GetEntityState, "/get_entity_state", entity="box").state.pose
    assert before.position.x > 0.5, "nothing has changed"
    pose = client.listen(PoseStamped, "/objects/box/pose")
    assert put("box").result == OK
    assert client.call(StepSimulation, "/step_simulation", steps=1).result.result == OK
    found = client.call(GetEntityState, "/get_entity_state", entity="box")
    assert found.result.result == OK
    assert found.state.pose.position.x == pytest.approx(0.1, abs=1e-4)
    assert found.state.pose.position.z == pytest.approx(1.5, abs=1e-3)
    client.until(lambda: pose() and pose().pose.position.z > 1.4, what="the published pose")
    again = {"position": before.position, "orientation": before.orientation}
    state = EntityState()
    state.pose.position, state.pose.orientation = again["position"], again["orientation"]
    answer = client.call(SetEntityState, "/set_entity_state", entity="box", state=state)
    assert answer.result.result == OK


def test_running_world_rejects_single_steps(cell, client):
    answer = client.call(StepSimulation, "/step_simulation", steps=1)
    assert answer.result.result == Result.RESULT_INCORRECT_STATE
    assert answer.result.error_message
