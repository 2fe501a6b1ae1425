# SPDX-License-Identifier: Apache-2.0
"""``ros2 control``, unmodified, on the controller manager's services."""

from __future__ import annotations

import parameters_of
import pytest
from cell_names import CARTESIAN, JOINT
from controller_manager_msgs.srv import ConfigureController, LoadController, UnloadController
from outside import require_clients

require_clients()

pytestmark = [pytest.mark.clock, pytest.mark.node]

SPAWNER = "../lib/controller_manager/spawner"


def test_conflicting_activation_was_reported_as_success(cell, client, outside):
    code, reported = outside.control("set_controller_state", f"left/{JOINT}", "active")
    assert "Successfully activated" not in reported
    assert "Error activating controller, check controller_manager logs" in reported
    assert code != 0
    words = f"switch rejected: left/{JOINT}: conflicts with"
    cell.wait_for(words)
    assert "strictness 4 (FORCE_AUTO) would deactivate left/" in cell.log.partition(words)[2]
    best_effort = ("--activate", f"right/{JOINT}", "--best-effort")
    gripper = ("--deactivate", "left/gripper")  # skipped, once without a message
    code, reported = outside.control("switch_controllers", *best_effort, *gripper)
    assert (code, f"right/{JOINT}: conflicts with" in reported) == (1, True), reported
    code, reported = outside.control(
        "switch_controllers", *best_effort, "--deactivate", f"right/{CARTESIAN}"
    )
    assert (code, f"active: right/{JOINT}" in reported) == (0, True), reported


def test_ros2_control_lists_sets_and_cleans_up(cell, client, outside):
    name = f"left/{JOINT}"
    reported = outside.ros2(
        "control list_hardware_components -v",
        "control list_hardware_interfaces",
        "control list_controller_types",
        "control set_hardware_component_state left inactive",
        f"control switch_controllers --activate {name} --strict",
        "control set_hardware_component_state left active",
        f"control switch_controllers --activate {name} --strict",
        f"control cleanup_controller right/{JOINT}",
        f"control set_controller_state right/{JOINT} inactive",
        "control reload_controller_libraries",
        "control list_controllers -c /left/controller_manager",
        "param get /controller_manager update_rate",
    )
    assert "plugin name: mujoco" in reported[0]
    assert "left_fr3_joint1/effort [double] [available] [claimed]" in reported[0]
    assert "right_fr3_joint7/velocity" in reported[1]
    assert "joint_trajectory" in reported[2]
    assert "Successfully set left to state" in reported[3]
    assert "arm left is inactive" in reported[4]
    assert "Successfully set left to state" in reported[5]
    assert f"active: {name}" in reported[6]
    assert "Successfully cleaned up" in reported[7]
    assert "Successfully configured" in reported[8]
    assert "exit: " in reported[9]
    assert "joint_state_broadcaster/JointStateBroadcaster" in reported[10]
    assert "1000" in reported[11]


def test_spawner_spawns_controllet_and_joint_state_broadcaster(cell, client, outside):
    assert client.switch((), [CARTESIAN], 2, "/left").ok
    names = ("joint_state_broadcaster", JOINT)
    code, reported = outside.run(
        SPAWNER,
        *names, "-c", "/left/controller_manager", "--activate-as-group",
    )  # fmt: skip
    assert code == 0, reported
    assert "Configured and activated all" in reported
    assert client.switch((), [JOINT], 2, "/left").ok, "the spawner has activated it"


FILE = """
/**/joint_impedance_controller:
  ros__parameters:
    damping_ratio: [0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
"""


@pytest.fixture
def without_joint(cell, client):
    """The left arm with the joint controllet unloaded; teardown restores it."""
    node = f"/left/{JOINT}"
    [before] = parameters_of.get(client, "damping_ratio", node=node)
    manager = "/left/controller_manager"
    assert client.call(UnloadController, f"{manager}/unload_controller", name=JOINT).ok
    yield cell
    for leaf in ("params_file", "node_options_args"):
        assert parameters_of.put(client, manager, **{f"{JOINT}.{leaf}": [""]}).successful
    values = list(before.double_array_value)
    assert parameters_of.put(client, node, damping_ratio=values).successful
    client.call(LoadController, f"{manager}/load_controller", name=JOINT)
    assert client.call(ConfigureController, f"{manager}/configure_controller", name=JOINT).ok


def test_params_file_of_unloaded_controllet_was_ignored(without_joint, client, outside, tmp_path):
    """Unsupported arguments and a different type were rejected without a reason."""
    file = tmp_path / "law.yaml"
    file.write_text(FILE)
    words = (JOINT, "-c", "/left/controller_manager", "--inactive")
    other = tmp_path / "other.yaml"
    other.write_text(FILE + "    type: joint_velocity\n")
    code, reported = outside.run(SPAWNER, *words, "-p", other)
    assert code != 0, reported
    without_joint.wait_for(f"{JOINT}.type: got 'joint_velocity', but it is read-only")
    code, reported = outside.run(
        SPAWNER, *words, "--controller-ros-args=-r target_joint:=/elsewhere"
    )
    assert code != 0, reported
    assert "Failed loading controller" in reported
    without_joint.wait_for("arguments: got '-r target_joint:=/elsewhere', allowed")
    code, reported = outside.run(SPAWNER, *words, "--controller-ros-args=-p stiffness_scale:=1.0")
    assert code != 0, reported
    without_joint.wait_for("parameter 'stiffness_scale' does not exist")
    code, reported = outside.run(SPAWNER, *words, "-p", file, "--controller-ros-args=--ros-args")
    assert code == 0, reported
    assert "Loaded" in reported
    [value] = parameters_of.get(client, "damping_ratio", node=f"/left/{JOINT}")
    assert list(value.double_array_value) == [0.6] * 7


def test_goal_sender_received_no_abort_reason(cell, outside):
    action = "/left/joint_trajectory_controller/follow_joint_trajectory"
    kind = "control_msgs/action/FollowJointTrajectory"
    _, reported = outside.run("ros2", "action", "send_goal", action, kind, "{}")
    assert "Goal finished with status: ABORTED" in reported
    assert "left/joint_trajectory_controller is not active" in reported
