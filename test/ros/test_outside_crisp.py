# SPDX-License-Identifier: Apache-2.0
"""Unmodified crisp_py: motion, switches, parameters and reported rejections."""

from __future__ import annotations

import numpy as np
import parameters_of
import pytest
from crisp import FOLDER
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.parameter import parameter_value_to_python

pytestmark = [pytest.mark.clock, pytest.mark.node]

LAW = "/left/cartesian_impedance_controller"
OWN = ("stiffness", "damping_ratio", "gain_frame", "error_clip", "coriolis.enabled",
       "nullspace.stiffness", "nullspace.damping_ratio")  # fmt: skip
AS_CRISP_HAS_THEM = """
limit_error: true
limit_torques: true
max_delta_tau: 0.5
nullspace.stiffness: 5.0
stop_commands: false
task.k_pos_x: 600.0
task.k_rot_z: 30.0
task.d_pos_x: 60.0
task.error_clip.rx: 0.5
use_friction: true
use_coriolis_compensation: true
use_local_jacobian: true
use_operational_space: false
use_sim_time: false
"""
OURS = f"""
robot = make_robot("left", time_to_home=1)
robot.wait_until_ready()

start = robot.joint_values
goal = start + 0.1
send = robot.joint_trajectory_controller_client.send_joint_config
def told(*args, **options):
    told.result = send(*args, **options).result
robot.joint_trajectory_controller_client.send_joint_config = told
robot.home(goal.tolist())
stay(robot, 1.0)
off = float(np.abs(robot.joint_values - goal).max())
home = [told.result.error_code, told.result.error_string, off]

law, file = wait_for_parameters(robot.cartesian_controller_parameters_client), sys.argv[1]
open(file, "w").write({AS_CRISP_HAS_THEM!r})
law.load_param_config(file)
names = ["stiffness", "gain_frame", "error_clip", "nullspace.stiffness", "task.d_pos_x"]
loaded = [list(v) if hasattr(v, "__len__") and not isinstance(v, str) else v
          for v in law.get_parameters(names)]
law.save_param_config(file)
law.load_param_config(file)
law.load_param_config({str(FOLDER / "control" / "stiff.yaml")!r})
robot.controller_switcher_client.switch_controller("cartesian_impedance_controller")
there = robot.end_effector_pose.position + [0.0, 0.0, 0.05]
robot.move_to(position=there, speed=0.1)
stay(robot, 1.5)
off = float(np.abs(robot.end_effector_pose.position - there).max())
print("found", json.dumps([home, loaded, off]))
"""
STOCK = """
from crisp_py.robot import Robot
from crisp_py.robot.robot_config import FrankaConfig
robot = Robot(namespace="again/right", robot_config=FrankaConfig())
robot.wait_until_ready()
start = robot.joint_values
robot.controller_switcher_client.switch_controller("joint_impedance_controller")
goal = start + np.array([0.2, 0, 0, 0, 0, 0, 0])
robot.set_target_joint(goal)
stay(robot, 3.0)
turned = [float(x) for x in robot.joint_values - start]
robot.reset_targets()
stay(robot, 0.1)
robot.wait_until_ready()
robot.controller_switcher_client.switch_controller("cartesian_impedance_controller")
there = robot.end_effector_pose.position + [0.0, 0.0, 0.05]
robot.move_to(position=there, speed=0.1)
stay(robot, 2.0)
off = float(np.abs(robot.end_effector_pose.position - there).max())
print("found", json.dumps([turned, off]))
"""


@pytest.fixture
def restored(cell, client):
    """Restore the parameters of the controllet after the test."""
    before = parameters_of.get(client, *OWN, node=LAW)
    yield
    values = {name: parameter_value_to_python(value) for name, value in zip(OWN, before)}
    assert parameters_of.put(client, LAW, **values).successful


@pytest.mark.slow
def test_home_was_aborted_by_joint_stream_of_crisp_py(cell, run_crisp, restored, tmp_path):
    """The parameters of crisp_py were also unknown, and a saved file could not be loaded."""
    (code, why, off_home), loaded, off = run_crisp(OURS, str(tmp_path / "law.yaml")).found()
    assert code == 0, why
    assert off_home < 0.01
    stiffness, frame, clip, nullspace, damping = loaded
    assert stiffness == [600.0, 400.0, 400.0, 20.0, 20.0, 30.0]
    assert (frame, clip[3], nullspace, damping) == ("tool", 0.5, [5.0] * 7, 60.0)
    assert off < 0.01
    assert "max_delta_tau " in cell.log


@pytest.mark.long
def test_stock_configuration_found_neither_frame_nor_joints(start, run_crisp):
    node = start("plain_joint_names:=true", remap=["__ns:=/again"]).wait_for("is active")
    joint_motion, off = run_crisp(STOCK).found()
    assert abs(joint_motion[0] - 0.2) < 0.02, node.log
    assert max(map(abs, joint_motion[1:])) < 0.02
    assert off < 0.015


REFUSALS = """
robot = make_robot("left")
robot.wait_until_ready()
law = wait_for_parameters(robot.cartesian_controller_parameters_client)
before, said = law.get_parameters(["stiffness"]), []
for name, value in [("stop_commands", True), ("use_operational_space", True),
                    ("stiffness", [9e9] * 6), ("task.k_pos_x", -1.0)]:
    try:
        law.set_parameters([(name, value)])
        said.append("taken")
    except RuntimeError as error:
        said.append(str(error))
kept = list(law.get_parameters(["stiffness"])[0]) == list(before[0])
start = robot.end_effector_pose.position
robot.set_target(position=start + [0.0, 0.0, 3.0])
stay(robot, 1.0)
moved = float(np.abs(robot.end_effector_pose.position - start).max())
print("found", json.dumps([said, kept, moved]))
print("waits", flush=True)
stay(robot, 60.0)
"""


@pytest.mark.slow
def test_unsupported_requests_are_rejected_without_effect(cell, client, crisp):
    """Parameters raise in crisp_py; a topic reports the rejection of a target."""
    program = crisp(REFUSALS)
    client.until(
        lambda: program.has_come_to_its_end() or "waits" in program.reported, 30.0, "waits"
    )
    reported, kept, moved = program.found()
    for reason, name in zip(reported, ("stop_commands", "use_operational_space", "stiffness",
                                   "task.k_pos_x"), strict=True):  # fmt: skip
        assert f"('{name}', False, " in reason
    assert kept
    assert moved < 1e-3
    status = client.newest(DiagnosticStatus, "/left/target_status")
    assert status.level == DiagnosticStatus.WARN
    assert "pose rejected: " in status.message


SWITCH = """
robot = make_robot("fr3", namespace="left")
robot.controller_switcher_client.switch_controller("joint_impedance_controller")
robot.controller_switcher_client.switch_controller("cartesian_impedance_controller")
"""
PREVENTED_SWITCH = """
robot = make_robot("fr3", namespace="left")
try:
    robot.controller_switcher_client.switch_controller("joint_impedance_controller")
    print("found", json.dumps("switched"))
except RuntimeError as error:
    print("found", json.dumps(str(error)))
"""


@pytest.mark.slow
def test_crisp_py_reported_success_of_prevented_switch(cell, client, run_crisp):
    run_crisp(SWITCH)
    assert client.switch(["dual_cartesian_impedance_controller"], strictness=4).ok
    reason = run_crisp(PREVENTED_SWITCH).found()
    assert reason == "Failed to switch to controller joint_impedance_controller."


BOTH = """
arms = {arm: make_robot(arm, time_to_home=2, name=f"robot_{arm}") for arm in ("left", "right")}
found = {}
for robot in arms.values():
    robot.wait_until_ready()
goals = {arm: robot.joint_values + turn for (arm, robot), turn in zip(arms.items(), (0.1, -0.1))}
for arm, robot in arms.items():
    robot.home(goals[arm].tolist(), blocking=False)
stay(robot, 3.5)
for arm, robot in arms.items():
    found[arm] = [float(np.abs(robot.joint_values - goals[arm]).max())]
    robot.wait_until_ready()
    robot.controller_switcher_client.switch_controller("cartesian_impedance_controller")
there = {arm: robot.end_effector_pose.position + [0.0, 0.0, 0.05] for arm, robot in arms.items()}
for arm, robot in arms.items():
    robot.move_to(position=there[arm], speed=0.1)
stay(robot, 1.5)
for arm, robot in arms.items():
    found[arm].append(float(np.abs(robot.end_effector_pose.position - there[arm]).max()))
print("found", json.dumps(found))
"""


@pytest.mark.slow
def test_one_program_homes_and_moves_both_arms(cell, run_crisp):
    found = run_crisp(BOTH).found()
    for arm in ("left", "right"):
        off_home, off = found[arm]
        assert off_home < 0.01
        assert off < 0.015


FROM_TF = """
robots = [make_robot("right", name=name, **more) for name, more in (
    ("by_topic", {}), ("by_tf", {"use_tf_pose": True, "base_frame": "right_fr3_link0"}))]
for robot in robots:
    robot.wait_until_ready()
stay(robot, 0.5)
poses = [robot.end_effector_pose for robot in robots]
print("found", json.dumps([[*p.position.tolist(), *p.orientation.as_matrix().ravel().tolist()]
                           for p in poses]))
"""


@pytest.mark.slow
def test_pose_from_transforms_equals_pose_of_topic(cell, run_crisp):
    of_topic, of_tf = np.array(run_crisp(FROM_TF).found())
    np.testing.assert_allclose(of_tf, of_topic, atol=2e-3)
