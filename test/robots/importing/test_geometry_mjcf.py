# SPDX-License-Identifier: Apache-2.0
"""Import of an arm in MJCF: its geometry, and the command as for a URDF."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.apps.cli import main
from multipanda_py.robots.importing.source import body_shapes
from multipanda_py.robots.read_robot import read_robot

pytestmark = [pytest.mark.sim, pytest.mark.inline]

MJCF = """
<mujoco>
  <asset><mesh name="wedge" vertex="0 0 0  0.2 0 0  0 0.1 0  0 0 0.1"/></asset>
  <worldbody>
    <body name="base">
      <geom type="box" size="0.05 0.06 0.07" pos="0 0 0.07" mass="2"/>
      <body name="upper" pos="0 0 0.14">
        <joint name="a" axis="0 0 1" range="-2 2" limited="true" actuatorfrcrange="-40 40"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.04" mass="2"/>
        <geom type="sphere" size="0.2" contype="0" conaffinity="0" mass="0"/>
        <body name="fore" pos="0 0 0.35">
          <joint name="b" axis="0 1 0" range="-2 2" limited="true" actuatorfrcrange="-30 30"/>
          <geom type="mesh" mesh="wedge" pos="0 0 0.01" mass="1"/>
          <site name="tool" pos="0.2 0 0"/>
        </body>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(MJCF)
    return path


def test_shapes_agree_with_file(arm):
    found = body_shapes(arm, ["base", "upper", "fore"])
    (box,) = found["base"]["collision"]
    np.testing.assert_allclose(np.abs(box.cloud().points).max(axis=0), (0.05, 0.06, 0.14))
    (capsule,) = found["upper"]["collision"]
    np.testing.assert_allclose(np.sort(capsule.cloud().points[:, 2]), (0.0, 0.3), atol=1e-12)
    np.testing.assert_allclose(capsule.cloud().radii, 0.04)
    assert [shape.kind for shape in found["upper"]["visual"]] == ["sphere"]
    (wedge,) = found["fore"]["collision"]
    expected = np.array([(0, 0, 0.01), (0.2, 0, 0.01), (0, 0.1, 0.01), (0, 0, 0.11)])
    points = wedge.cloud().points
    distances = np.linalg.norm(points[:, None] - expected, axis=2)
    assert distances.min(axis=0).max() < 1e-6
    assert distances.min(axis=1).max() < 1e-6


def test_drafted_yaml_reads_as_arm(arm, tmp_path, capsys):
    command = ["robot", "import", str(arm), "-o", str(tmp_path), "--no-image"]
    assert main(command) == 1
    assert "velocity: missing for joint a" in capsys.readouterr().err
    known = tmp_path / "known.yaml"
    known.write_text("velocity: 2.0\n")
    assert main([*command, "--extra", str(known)]) == 0
    robot = read_robot(tmp_path / "arm.yaml")
    assert [link.name for link in robot.links] == ["base", "upper", "fore"]
    assert robot.flange.name == "tool"
    np.testing.assert_array_equal(robot.limits.torque, (40.0, 30.0))
    (upper,) = robot.links[1].capsules
    assert upper.radius == pytest.approx(0.04, rel=0.01)
    assert sorted((upper.start[2], upper.end[2])) == pytest.approx([0.0, 0.3], abs=2e-3)
