# SPDX-License-Identifier: Apache-2.0
"""UR5e on a linear axis: seven joints, with a prismatic first joint."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import yaml

from multipanda_py.robots.models import DATA_FOLDER
from multipanda_py.robots.read_robot import read_robot

NAME = "railed_ur5e"
RAIL = """
  <link name="rail"/>
  <link name="carriage">
    <inertial><origin xyz="0 0 -0.05"/><mass value="30"/>
      <inertia ixx="0.4" iyy="0.5" izz="0.8" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="rail_joint" type="prismatic">
    <parent link="rail"/><child link="carriage"/><origin xyz="0 0 0.1"/><axis xyz="0 1 0"/>
    <limit lower="-0.8" upper="0.8" velocity="1.0" effort="1500"/>
  </joint>
  <joint name="mount" type="fixed"><parent link="carriage"/><child link="base_link"/></joint>
"""
PER_JOINT = ("acceleration", "jerk", "torque_rate", "armature", "ready")
ON_RAIL = {"acceleration": 4.0, "jerk": 2000.0, "torque_rate": 18000.0, "armature": 8.0,
           "ready": 0.1}  # fmt: skip


def write_rail(folder):
    """Write URDF and YAML into a folder; return the path of the YAML."""
    urdf = (DATA_FOLDER / "ur5e.urdf").read_text()
    begin = urdf.index("<link")
    (folder / f"{NAME}.urdf").write_text(urdf[:begin] + RAIL + urdf[begin:])
    data = yaml.safe_load((DATA_FOLDER / "ur5e.yaml").read_text())
    data |= {key: [ON_RAIL[key], *data[key]] for key in PER_JOINT}
    joints = ("shoulder_pan", "shoulder_lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
    data["figures"] = {
        name: {f"{joint}_joint": value for joint, value in zip(joints, values)}
        for name, values in data["figures"].items()
    }
    data |= {"urdf": f"{NAME}.urdf", "base": "rail", "overlapping": [[5, 7]],
             "sections": [[0, 1, 2, 3], [4], [5, 6, 7]]}  # fmt: skip
    path = folder / f"{NAME}.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


@cache
def railed_ur5e():
    """Return the robot description."""
    with tempfile.TemporaryDirectory() as folder:
        return read_robot(write_rail(Path(folder)))
