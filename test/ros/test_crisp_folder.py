# SPDX-License-Identifier: Apache-2.0
"""The files for crisp_py and crisp_gym name the same hands, and parameters that laws take."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multipanda_py.cell import Cell

FOLDER = Path(__file__).resolve().parents[2] / "config" / "crisp"
CELL = Path(__file__).with_name("crisp_cell.yaml")
LAWS = {"joint_control": "joint_impedance_controller"}


def read(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


@pytest.mark.node
@pytest.mark.parametrize("arm", ["left", "right"])
def test_an_environment_of_crisp_gym_has_the_hand_and_tool_of_its_arm(arm):
    env, robot = read(f"envs/{arm}"), read(f"robots/{arm}")
    assert env["gripper_config"] == read(f"grippers/{arm}")["gripper_config"]
    assert env["robot_config"].items() <= robot.items()


@pytest.mark.inline
def test_laws_take_the_parameters_that_are_loaded_into_them():
    with Cell.from_yaml(CELL, placement="inline") as cell:
        for file in sorted((FOLDER / "control").glob("*.yaml")):
            law = LAWS.get(file.stem, "cartesian_impedance_controller")
            cell.set_parameters(f"right/{law}", yaml.safe_load(file.read_text()))
