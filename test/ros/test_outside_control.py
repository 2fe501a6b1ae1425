# SPDX-License-Identifier: Apache-2.0
"""``ros2 control`` and crisp_py, unmodified, on the controller manager's services."""

from __future__ import annotations

CARTESIAN, JOINT = "cartesian_impedance_controller", "joint_impedance_controller"
DUAL = "dual_cartesian_impedance_controller"


def test_activating_in_spite_of_a_conflict_was_called_a_success(cell, client, outside):
    code, said = outside.control("set_controller_state", f"left/{JOINT}", "active")
    assert "Successfully activated" not in said
    assert "Error activating controller, check controller_manager logs" in said
    assert code != 0
    words = f"not active: left/{JOINT}; active: nothing new"
    cell.wait_for(words)
    assert "strictness 4 (FORCE_AUTO) would deactivate left/" in cell.log.partition(words)[2]
    left_out = ("--activate", f"right/{JOINT}", "--best-effort")
    code, said = outside.control("switch_controllers", *left_out)
    assert (code, f"not active: right/{JOINT}" in said) == (1, True), said
    code, said = outside.control(
        "switch_controllers", *left_out, "--deactivate", f"right/{CARTESIAN}"
    )
    assert (code, f"active: right/{JOINT}" in said) == (0, True), said


SWITCH = f"""
from crisp_py.robot import make_robot
robot = make_robot("fr3", namespace="left")
robot.controller_switcher_client.switch_controller("{JOINT}")
robot.controller_switcher_client.switch_controller("{CARTESIAN}")
print("switched twice")
"""


def test_crisp_py_s_switcher_believed_in_a_switch_that_a_law_of_two_arms_prevented(
    cell, client, outside
):
    assert "switched twice" in outside.crisp(SWITCH)
    assert client.switch([DUAL], strictness=4).ok
    said = outside.crisp(SWITCH)
    assert f"RuntimeError: Failed to switch to controller {JOINT}" in said
    assert "switched twice" not in said
