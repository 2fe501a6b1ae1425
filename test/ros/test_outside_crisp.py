# SPDX-License-Identifier: Apache-2.0
"""crisp_py, unmodified, moves an arm."""

from __future__ import annotations

import json
from pathlib import Path

import parameters_of
import pytest
from rclpy.parameter import parameter_value_to_python

pytestmark = [pytest.mark.clock, pytest.mark.node]

FOLDER = Path(__file__).resolve().parents[2] / "config" / "crisp"
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
import json, os, sys, tempfile
os.environ["CRISP_CONFIG_PATH"] = {str(FOLDER)!r}
import numpy as np
from crisp_py.robot import make_robot
robot = make_robot("left", time_to_home=1)
robot.wait_until_ready()

start = robot.joint_values
goal = start + 0.1
send = robot.joint_trajectory_controller_client.send_joint_config
def told(*args, **options):
    told.result = send(*args, **options).result
robot.joint_trajectory_controller_client.send_joint_config = told
robot.home(goal.tolist())
rate = robot.node.create_rate(20)
for _ in range(20):
    rate.sleep()
off = float(np.abs(robot.joint_values - goal).max())
home = [told.result.error_code, told.result.error_string, off]

law = robot.cartesian_controller_parameters_client
file = tempfile.mktemp()
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
for _ in range(30):
    rate.sleep()
off = float(np.abs(robot.end_effector_pose.position - there).max())
print("found", json.dumps([home, loaded, off]))
"""
STOCK = """
import json
import numpy as np
from crisp_py.robot import Robot
from crisp_py.robot.robot_config import FrankaConfig
robot = Robot(namespace="again/right", robot_config=FrankaConfig())
robot.wait_until_ready()
start = robot.joint_values
robot.controller_switcher_client.switch_controller("joint_impedance_controller")
goal = start + np.array([0.2, 0, 0, 0, 0, 0, 0])
robot.set_target_joint(goal)
rate = robot.node.create_rate(20)
for _ in range(60):
    rate.sleep()
turned = [float(x) for x in robot.joint_values - start]
robot.reset_targets()
rate.sleep()
robot.wait_until_ready()
robot.controller_switcher_client.switch_controller("cartesian_impedance_controller")
there = robot.end_effector_pose.position + [0.0, 0.0, 0.05]
robot.move_to(position=there, speed=0.1)
for _ in range(40):
    rate.sleep()
off = float(np.abs(robot.end_effector_pose.position - there).max())
print("found", json.dumps([turned, off]))
"""


def found(said):
    assert "found [" in said, said
    return json.loads(said.partition("found ")[2].splitlines()[0])


@pytest.fixture
def restored(cell, client):
    """The law's parameters are as they were after the test."""
    before = parameters_of.get(client, *OWN, node=LAW)
    yield
    values = {name: parameter_value_to_python(value) for name, value in zip(OWN, before)}
    assert parameters_of.put(client, LAW, **values).successful


def test_home_was_aborted_by_the_joints_that_crisp_py_streams_all_the_time(
    cell, outside, restored
):
    """Also: its parameters were unknown, and what it saved could not be loaded again."""
    (code, why, off_home), loaded, off = found(outside.crisp(OURS))
    assert code == 0, why
    assert off_home < 0.01
    stiffness, frame, clip, posture, damping = loaded
    assert stiffness == [600.0, 400.0, 400.0, 20.0, 20.0, 30.0]
    assert (frame, clip[3], posture, damping) == ("tool", 0.5, [5.0] * 7, 60.0)
    assert off < 0.01
    assert "max_delta_tau has no effect: the torque rate limit is the robot's" in cell.log


def test_its_stock_configuration_found_neither_frame_nor_joints(start, outside):
    node = start("plain_joint_names:=true", remap=["__ns:=/again"]).wait_for("is active")
    turned, off = found(outside.crisp(STOCK))
    assert abs(turned[0] - 0.2) < 0.02, node.log
    assert max(map(abs, turned[1:])) < 0.02
    assert off < 0.015
