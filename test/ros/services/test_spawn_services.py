# SPDX-License-Identifier: Apache-2.0
"""Objects spawned and deleted by the services of simulation_interfaces during control."""

from __future__ import annotations

import json

import pytest
import yaml
from geometry_msgs.msg import PoseStamped
from simulation_interfaces.msg import Result, SimulationState
from simulation_interfaces.srv import GetEntityState, SetSimulationState
from tf2_msgs.msg import TFMessage

srv = pytest.importorskip(
    "simulation_interfaces.srv", reason="simulation_interfaces is not installed"
)
if not hasattr(srv, "SpawnEntity"):
    pytest.skip("simulation_interfaces has no SpawnEntity", allow_module_level=True)

from simulation_interfaces.srv import DeleteEntity, GetSpawnables, SpawnEntity  # noqa: E402

pytestmark = [pytest.mark.clock, pytest.mark.node]

OK, Wrong = Result.RESULT_OK, SpawnEntity.Response
BRICK = {
    "shape": "box", "size": [0.03, 0.02, 0.01], "position": [0.5, 0.0, 0.01], "mass": 0.1,
    "present": False,
}  # fmt: skip
CELL = {
    "cell": {"name": "spawning", "rate": 500.0},
    "arms": {"left": {"backend": "mujoco"}},
    "objects": {f"brick_{k}": BRICK for k in (1, 2, 3)},
    "controllets": {"soft": {"type": "cartesian_impedance"}},
    "active": ["left/soft"],
}


@pytest.fixture
def bricks(start, tmp_path, client):
    file = tmp_path / "cell.yaml"
    plain = json.loads(json.dumps({"/**": {"ros__parameters": CELL}}))  # rcl reads no aliases
    file.write_text(yaml.safe_dump(plain))
    node = start(file=file)
    node.wait_for("is active")
    return node


@pytest.mark.long
def test_bricks_are_spawned_and_deleted_by_name(bricks, client):
    def spawn(name="", x=0.5, z=0.1, frame="world", w=1.0, **more):
        pose = PoseStamped()
        pose.header.frame_id = frame
        pose.pose.position.x, pose.pose.position.z, pose.pose.orientation.w = x, z, w
        return client.call(
            SpawnEntity, "/own_0/spawn_entity", name=name, initial_pose=pose, **more
        )

    def delete(name):
        return client.call(DeleteEntity, "/own_0/delete_entity", entity=name).result

    def spawnable():
        found = client.call(GetSpawnables, "/own_0/get_spawnables")
        assert found.result.result == OK
        return [item.uri for item in found.spawnables]

    def refused(answer, code, words):
        assert (answer.result.result, answer.entity_name) == (code, "")
        assert words in answer.result.error_message

    assert spawnable() == ["brick_1", "brick_2", "brick_3"]
    pose = client.listen(PoseStamped, "/own_0/objects/brick_1/pose")
    frames = client.listen(TFMessage, "/tf")
    answer = spawn("brick_1")
    assert (answer.result.result, answer.entity_name) == (OK, "brick_1"), answer.result
    client.until(lambda: pose() and pose().pose.position.z < 0.02, what="a fallen brick")

    def observed():
        return {t.child_frame_id for t in frames().transforms} if frames() else set()

    client.until(lambda: "brick_1" in observed(), what="the frame of the brick")
    assert "brick_2" not in observed()
    refused(spawn("brick_1"), Wrong.NAME_NOT_UNIQUE, "set allow_renaming for another")
    answer = spawn("brick_1", x=0.6, allow_renaming=True)
    assert (answer.result.result, answer.entity_name) == (OK, "brick_2"), answer.result
    refused(spawn(uri="brick_3", name="mine"), Wrong.NAME_INVALID, "got 'mine', allowed brick_3")
    refused(spawn("brick_3", z=0.011), Wrong.INVALID_POSE, "would overlap brick_1")
    refused(spawn("brick_3", x=0.0), Wrong.INVALID_POSE, "would overlap left")
    refused(spawn("brick_3", z=0.0), Wrong.INVALID_POSE, "would overlap")
    refused(spawn("brick_3", w=0.0), Wrong.INVALID_POSE, "quaternion")
    refused(spawn("brick_3", frame="map"), Wrong.INVALID_POSE, "got 'map', allowed world")
    refused(spawn("duck"), Result.RESULT_NOT_FOUND, "'duck' does not exist; known: brick_1")
    refused(spawn(), Wrong.NO_RESOURCE, "allowed the name of an absent object")
    refused(spawn("a", resource_string="<sdf/>"), Wrong.UNSUPPORTED_FORMAT, "defined in the cell")
    refused(spawn("brick_3", entity_namespace="x"), Wrong.NAMESPACE_INVALID, "got 'x'")
    assert spawnable() == ["brick_3"]
    assert delete("brick_1").result == OK
    assert delete("brick_1").result == Result.RESULT_NOT_FOUND
    assert delete("duck").result == Result.RESULT_NOT_FOUND
    found = client.call(GetEntityState, "/own_0/get_entity_state", entity="brick_1")
    assert found.result.result == Result.RESULT_NOT_FOUND
    client.until(lambda: frames() and "brick_1" not in observed(), what="removal of the frame")

    def pause(state):
        expected = SimulationState(state=state)
        done = client.call(SetSimulationState, "/own_0/set_simulation_state", state=expected)
        assert done.result.result == OK

    pause(SimulationState.STATE_PAUSED)
    assert spawn("brick_3").result.result == OK, "spawn into a paused world"
    assert delete("brick_3").result == OK
    pause(SimulationState.STATE_PLAYING)
    client.until(lambda: "fault" not in bricks.log, what="an arm without a fault")
