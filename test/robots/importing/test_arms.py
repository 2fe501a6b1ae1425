# SPDX-License-Identifier: Apache-2.0
"""Selection of one arm from a description."""

from __future__ import annotations

import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.importing.robot_draft import find_arm
from multipanda_py.robots.read_urdf import read_urdf

pytestmark = pytest.mark.inline

JOINT = (
    '<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{more}'
    "</joint>"
)


def tree(tmp_path, *joints):
    """Read a URDF with these joints: name, type, parent, child."""
    links = dict.fromkeys(link for joint in joints for link in joint[2:4])
    text = "".join(f'<link name="{link}"/>' for link in links)
    for name, kind, parent, child, *more in joints:
        text += JOINT.format(name=name, kind=kind, parent=parent, child=child, more="".join(more))
    path = tmp_path / "robot.urdf"
    path.write_text(f'<robot name="r">{text}</robot>')
    return read_urdf(path)


ONE = (
    ("world_base", "fixed", "world", "base"),
    ("j1", "revolute", "base", "l1"),
    ("j2", "continuous", "l1", "l2"),
    ("flange", "fixed", "l2", "tool0"),
    ("camera", "fixed", "l2", "camera"),
    ("finger", "prismatic", "tool0", "finger"),
)
TWO = (
    ("torso", "revolute", "base", "trunk"),
    ("left_mount", "fixed", "trunk", "left_base"),
    ("left_1", "revolute", "left_base", "left_l1"),
    ("left_2", "revolute", "left_l1", "left_l2"),
    ("right_1", "revolute", "trunk", "right_l1"),
    ("right_2", "revolute", "right_l1", "right_l2"),
    ("right_flange", "fixed", "right_l2", "right_tool"),
    ("wheel", "continuous", "base", "wheel"),
)


def test_single_arm_extends_from_first_joint_to_flange(tmp_path):
    arm = find_arm(tree(tmp_path, *ONE))
    assert (arm.base, arm.tip, arm.joints) == ("base", "tool0", ("j1", "j2"))
    assert find_arm(tree(tmp_path, *ONE), "world").base == "world"
    assert find_arm(tree(tmp_path, *ONE), tip="camera").tip == "camera"


def test_linear_axis_belongs_to_arm_it_carries(tmp_path):
    rail = ("rail", "prismatic", "floor", "world")
    assert find_arm(tree(tmp_path, rail, *ONE)).joints == ("rail", "j1", "j2")
    assert find_arm(tree(tmp_path, rail, *ONE), "base").joints == ("j1", "j2")


def test_mimic_joints_form_no_arm(tmp_path):
    knuckle = ("knuckle", "revolute", "tool0", "knuckle", '<mimic joint="j2"/>')
    assert find_arm(tree(tmp_path, *ONE, knuckle)).tip == "tool0"


def test_several_arms_are_listed_and_base_or_tip_selects(tmp_path):
    several = tree(tmp_path, *TWO)
    with pytest.raises(ConfigurationError) as refusal:
        find_arm(several)
    reported = str(refusal.value)
    assert "3 arms" in reported
    assert "--base base --tip left_l2  (3 joints)" in reported
    assert "--base base --tip right_tool  (3 joints)" in reported
    assert "--base base --tip wheel  (1 joint)" in reported
    assert find_arm(several, "left_base").joints == ("left_1", "left_2")
    assert find_arm(several, tip="right_tool").joints == ("torso", "right_1", "right_2")
    with pytest.raises(ConfigurationError, match=r"\b2\b.*'trunk'"):
        find_arm(several, "trunk")
    chosen = find_arm(several, "trunk", "left_l2")
    assert chosen.joints == ("left_1", "left_2")


@pytest.mark.parametrize(
    ("base", "tip", "message"),
    [
        (
            "left_base",
            "right_tool",
            "tip: .*'right_tool'",
        ),
        ("left", "", "base: .*'left'"),
        ("", "hand", "'hand'"),
        ("right_tool", "", "base 'right_tool'"),
    ],
)
def test_ends_on_no_chain_are_refused(tmp_path, base, tip, message):
    with pytest.raises(ConfigurationError, match=message):
        find_arm(tree(tmp_path, *TWO), base, tip)


def test_description_without_joints_has_no_arm(tmp_path):
    with pytest.raises(ConfigurationError, match="found no arm"):
        find_arm(tree(tmp_path, ("mount", "fixed", "a", "b")))


def test_ring_of_joints_does_not_loop_forever(tmp_path):
    ring = (("a", "fixed", "x", "y"), ("b", "fixed", "y", "x"))
    with pytest.raises(ConfigurationError):
        find_arm(tree(tmp_path, *ring), tip="x")
