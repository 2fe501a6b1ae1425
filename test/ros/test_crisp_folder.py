# SPDX-License-Identifier: Apache-2.0
"""Consistency of the files for crisp_py and crisp_gym with grippers and controllets."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multipanda_py.cell import Cell

FOLDER = Path(__file__).resolve().parents[2] / "config" / "crisp"
CELL = Path(__file__).with_name("crisp_cell.yaml")
CONTROLLETS = {"joint_control": "joint_impedance_controller"}


def read(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


@pytest.mark.node
@pytest.mark.parametrize("arm", ["left", "right"])
def test_crisp_gym_environment_has_gripper_and_tool_of_its_arm(arm):
    env, robot = read(f"envs/{arm}"), read(f"robots/{arm}")
    assert env["gripper_config"] == read(f"grippers/{arm}")["gripper_config"]
    assert env["robot_config"].items() <= robot.items()


@pytest.mark.inline
def test_controllets_accept_parameters_of_control_files():
    with Cell.from_yaml(CELL, placement="inline") as cell:
        for file in sorted((FOLDER / "control").glob("*.yaml")):
            law = CONTROLLETS.get(file.stem, "cartesian_impedance_controller")
            cell.set_parameters(f"right/{law}", yaml.safe_load(file.read_text()))
