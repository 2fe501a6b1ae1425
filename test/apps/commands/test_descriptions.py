# SPDX-License-Identifier: Apache-2.0
"""``multipanda robot import`` writes valid robots and rejects invalid descriptions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import yaml
from repository import BENCH_ARM

from multipanda_py.apps.cli import main
from multipanda_py.robots.extra_data import PER_JOINT
from multipanda_py.robots.importing import capsules as fit
from multipanda_py.robots.read_robot import read_robot

pytestmark = pytest.mark.inline


def draft(urdf, folder, *arguments):
    return main(["robot", "import", str(urdf), "-o", str(folder), "--no-image", *arguments])


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Folder with the draft of the bench arm."""
    folder = tmp_path_factory.mktemp("bench")
    assert draft(BENCH_ARM, folder) == 0
    return folder


def test_draft_has_every_key_with_unit_or_origin(bench):
    path = bench / "bench_arm.yaml"
    data = yaml.safe_load(path.read_text())
    missing = set(PER_JOINT) - set(data)
    assert missing == {"lower", "upper", "velocity", "torque"}  # The URDF has these.
    assert set(data) >= {"urdf", "base", "tip", "sections", "overlapping", "capsules", "figures"}
    assert (bench / data["urdf"]).samefile(BENCH_ARM)
    lines = path.read_text().splitlines()
    for before, line in pairwise(lines):
        if ": [" in line:
            assert "#" in line or before.startswith("#"), line


@pytest.mark.parametrize(
    ("old", "new", "base", "received"),
    [
        ('"revolute"', '"planar"', "shoulder_link", "joint_1 (planar)"),
        (
            "</joint>",
            '<mimic joint="joint_2"/></joint>',
            "shoulder_link",
            "joint_1 (revolute that mimics another one)",
        ),
    ],
)
def test_joints_before_arm_are_reported(tmp_path, capsys, old, new, base, received):
    path = tmp_path / "railed.urdf"
    path.write_text(BENCH_ARM.read_text().replace(old, new, 1))
    assert draft(path, tmp_path) == 0
    warning = (
        f"warning: the arm starts at {base}, behind joint {received}. This joint is not part of"
    )
    assert warning in capsys.readouterr().err


def test_arm_without_preceding_joints_gives_no_warning(tmp_path, capsys):
    assert draft(BENCH_ARM, tmp_path) == 0
    assert capsys.readouterr().err == ""


def test_draft_is_an_arm_with_enclosing_capsules(bench):
    robot = read_robot(bench / "bench_arm.yaml")
    assert [joint.name for joint in robot.joints] == [f"joint_{i}" for i in range(1, 7)]
    by_name = {link.name: link for link in robot.links}
    (capsule,) = by_name["upper_arm_link"].capsules
    low, high = sorted((capsule.start[2], capsule.end[2]))
    assert 0.045 <= capsule.radius < 0.047  # A cylinder of radius 0.045 from -0.02 to 0.32.
    assert low - (capsule.radius**2 - 0.045**2) ** 0.5 <= -0.02
    assert high + (capsule.radius**2 - 0.045**2) ** 0.5 >= 0.32
    assert (robot.limits.lower + 0.29 < robot.ready).all()
    assert (robot.ready < robot.limits.upper - 0.29).all()


def test_existing_yaml_is_not_overwritten(bench, capsys):
    before = (bench / "bench_arm.yaml").read_text()
    assert draft(BENCH_ARM, bench) == 1
    assert "bench_arm.yaml: exists already" in capsys.readouterr().err
    assert draft(BENCH_ARM, bench, "--force") == 0
    assert (bench / "bench_arm.yaml").read_text() == before  # The same input gives the same draft.


def test_known_values_are_kept(tmp_path):
    known = tmp_path / "known.yaml"
    known.write_text("velocity: 1.5\narmature: {joint_2: 0.7}\nready: [0, 0.5, 1, 0, 1, 0]\n")
    assert draft(BENCH_ARM, tmp_path, "--extra", str(known), "--name", "mine") == 0
    robot = read_robot(tmp_path / "mine.yaml")
    np.testing.assert_array_equal(robot.limits.velocity, 1.5)
    assert robot.armature[1] == 0.7
    np.testing.assert_array_equal(robot.ready, [0, 0.5, 1, 0, 1, 0])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (' effort="60" velocity="2.5"', "", "velocity: missing for joint joint_3"),
        ('ixx="0.000117"', 'ixx="-1"', "link wrist_3_link: got mass 0.3 kg and principal moments"),
        ('ixx="0.000117"', 'ixx="9"', "any two not below the third"),
        ('name="joint_4" type="revolute"', 'name="joint_4" type="planar"',
         "Choose one of them:\n  --base base_link --tip forearm_link  (3 joints)"),
        ('name="joint_4" type="revolute"', 'name="joint_4" type="planar"',
         "joint_4 (planar)"),
        ('link name="wrist_2_link"', 'link name="wrist_1_link"', "this name is used twice"),
        ('<cylinder radius="0.045" length="0.34"/>', '<mesh filename="arm.stl"/>',
         "mesh: 'arm.stl' does not exist; searched: "),
        ('<robot name="bench_arm">', "<robot", "cannot be read"),
        ('<mass value="2.6"/>', '<mass value="${m}"/>', "expand xacro first"),
    ],
)  # fmt: skip
def test_invalid_arm_is_rejected_without_output(tmp_path, capsys, old, new, message):
    text = BENCH_ARM.read_text()
    assert old in text
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(text.replace(old, new))
    assert draft(urdf, tmp_path / "out") == 1
    reported = capsys.readouterr().err
    assert message in reported
    assert str(tmp_path) in reported
    assert not (tmp_path / "out").exists()


def test_invalid_name_is_rejected(tmp_path, capsys):
    assert draft(BENCH_ARM, tmp_path, "--name", "my arm") == 1
    assert "--name: got 'my arm', allowed a letter" in capsys.readouterr().err


def test_missing_file_is_rejected(tmp_path, capsys):
    assert draft(tmp_path / "no.urdf", tmp_path) == 1
    assert "no.urdf: file does not exist" in capsys.readouterr().err


def test_centre_of_mass_outside_geometry_gives_warning(tmp_path, capsys):
    urdf = tmp_path / "robot.urdf"
    urdf.write_text(
        BENCH_ARM.read_text().replace('<origin xyz="0 0 0.15"/>', '<origin xyz="0 0.2 0"/>', 1)
    )
    assert draft(urdf, tmp_path) == 0
    reported = capsys.readouterr().err
    assert "link upper_arm_link: its centre of mass is 15" in reported
    assert reported.count("warning") == 1


def tree_of_links(count, arm):
    """Return a URDF of several arms of this many joints, with a sensor on every link."""
    body = (
        '<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" '
        'ixy="0" ixz="0" iyz="0"/></inertial>'
    )
    solid = (
        '<collision><origin xyz="0 0 0.1"/><geometry><cylinder radius="0.04" length="0.2"/>'
        "</geometry></collision>"
    )
    links, joints = ["base"], []
    while len(links) < count:
        number = len(links)
        parent = "base" if (number - 1) % (2 * arm) == 0 else links[number - 1]
        kind = "revolute" if number % 2 else "fixed"
        axis = "0 0 1" if number % 4 == 1 else "0 1 0"
        joints.append(
            f'<joint name="j{number}" type="{kind}"><parent link="{parent}"/>'
            f'<child link="l{number}"/><origin xyz="0 0 0.1"/><axis xyz="{axis}"/>'
            '<limit lower="-2" upper="2" effort="50" velocity="2"/></joint>'
        )
        links.append(f"l{number}")
    text = "".join(f'<link name="{link}">{body}{solid}</link>' for link in links)
    return f'<robot name="tree">{text}{"".join(joints)}</robot>'


def test_only_links_of_chosen_arm_are_fitted(tmp_path, monkeypatch, capsys):
    urdf = tmp_path / "tree.urdf"
    urdf.write_text(tree_of_links(100, 7))
    assert draft(urdf, tmp_path) == 1
    assert "found 8 arms. Choose one" in capsys.readouterr().err
    fitted = []
    around = fit.capsules_around
    monkeypatch.setattr(
        fit, "capsules_around", lambda *given: fitted.append(given) or around(*given)
    )
    assert draft(urdf, tmp_path, "--base", "base", "--tip", "l28") == 0
    assert len(fitted) == 15  # The base, seven moving links, and seven links fixed to them.
    assert read_robot(tmp_path / "tree.yaml").n_joints == 7


@pytest.mark.sim
def test_image_shows_capsules_on_right_half(tmp_path, capsys):
    imageio = pytest.importorskip("imageio.v3")
    assert main(["robot", "import", str(BENCH_ARM), "-o", str(tmp_path)]) == 0
    reported = capsys.readouterr()
    if "no image" in reported.err:
        pytest.skip(reported.err)
    image = imageio.imread(tmp_path / "bench_arm.png")[..., :3].astype(int)
    orange = (image[..., 0] > image[..., 2] + 80) & (image[..., 0] > 150)
    left, right = np.split(orange, 2, axis=1)
    assert not left.any()
    assert right.mean() > 0.03


ONE_JOINT = """<robot name="one"><link name="base"/><link name="lever"><inertial><mass value="1"/>
<origin xyz="0 0 0.2"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>
</inertial><collision><origin xyz="0 0 0.2"/><geometry><cylinder radius="0.05" length="0.4"/>
</geometry></collision></link><joint name="pivot" type="revolute"><parent link="base"/>
<child link="lever"/><axis xyz="0 1 0"/><limit lower="-2" upper="2" velocity="2" effort="20"/>
</joint>{tool}</robot>"""
TOOL = """<link name="tool"/><joint name="end" type="fixed"><parent link="lever"/>
<child link="tool"/><origin xyz="0 0 0.4"/></joint>"""


@pytest.mark.parametrize("tool", ["", TOOL])
def test_arm_with_one_joint_ended_in_traceback(tmp_path, tool):
    """pinocchio returns its Jacobian as a vector; without a tool it has zero length as well."""
    urdf = tmp_path / "one.urdf"
    urdf.write_text(ONE_JOINT.format(tool=tool))
    assert draft(urdf, tmp_path) == 0
    robot = read_robot(tmp_path / "one.yaml")
    assert [joint.name for joint in robot.joints] == ["pivot"]
    assert np.isfinite(robot.ready).all()
