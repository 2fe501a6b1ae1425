# SPDX-License-Identifier: Apache-2.0
"""URDF of arms and cells."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.urdf import cell_urdf, main, shipped_files

pytestmark = pytest.mark.inline

FOLDER = Path(__file__).parents[2] / "urdf"


@pytest.mark.parametrize("name", sorted(shipped_files()))
def test_shipped_files_are_current(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert text == shipped_files()[name], "run: python -m multipanda_py.robots.urdf --write urdf/"


def test_command_writes_and_prints_files(tmp_path, capsys):
    assert main(["--write", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == set(shipped_files())
    assert main(["--show", "fr3.urdf"]) == 0
    assert capsys.readouterr().out == shipped_files()["fr3.urdf"]


def test_cell_has_one_world_and_unique_links():
    arms = [
        ArmDescription("left", position_base_in_world=np.array([0.0, 0.3, 0.0])),
        ArmDescription("right", "fer", position_base_in_world=np.array([0.0, -0.3, 0.0])),
    ]
    text = cell_urdf(arms)
    robot = ElementTree.fromstring(text.encode())
    links = [link.get("name") for link in robot.findall("link")]
    assert links == ["world", *arms[0].link_names, *arms[1].link_names]
    children = [joint.find("child").get("link") for joint in robot.findall("joint")]
    assert sorted(children) == sorted(links[1:])
    model = pin.buildModelFromXML(text)
    data = model.createData()
    pin.framesForwardKinematics(model, data, pin.neutral(model))
    base = data.oMf[model.getFrameId("right_fer_link0")]
    np.testing.assert_allclose(base.translation, (0.0, -0.3, 0.0), atol=1e-12)


def test_second_finger_mimics_first():
    robot = ElementTree.fromstring(shipped_files()["fr3.urdf"].encode())
    mimic = robot.find("joint[@name='arm_fr3_finger_joint2']/mimic")
    assert mimic.get("joint") == "arm_fr3_finger_joint1"


def test_arms_need_different_names():
    with pytest.raises(ConfigurationError, match="different names"):
        cell_urdf([ArmDescription("left"), ArmDescription("left", "fer")])
