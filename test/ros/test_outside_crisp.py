# SPDX-License-Identifier: Apache-2.0
"""crisp_py, unmodified, moves an arm."""

from __future__ import annotations

HOME = """
import numpy as np
from crisp_py.robot import make_robot
robot = make_robot("fr3", namespace="left", use_prefix=True, time_to_home=1)
robot.wait_until_ready()
goal = robot.joint_values + 0.1
send = robot.joint_trajectory_controller_client.send_joint_config
def told(*args, **options):
    result = send(*args, **options).result
    print("told:", result.error_code, result.error_string)
robot.joint_trajectory_controller_client.send_joint_config = told
robot.home(goal.tolist())
rate = robot.node.create_rate(20)
for _ in range(20):
    rate.sleep()
print("off by", np.abs(robot.joint_values - goal).max().round(3))
"""


def test_home_was_aborted_by_the_joints_that_crisp_py_streams_all_the_time(cell, outside):
    said = outside.crisp(HOME)
    assert "told: 0 done" in said, said
    assert float(said.partition("off by ")[2].split()[0]) < 0.01, said
