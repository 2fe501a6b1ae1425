# SPDX-License-Identifier: Apache-2.0
"""MoveIt files of cells, as the command writes them, read by independent parsers."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pinocchio as pin
import pytest
import yaml
from repository import CONFIG

from multipanda_py.apps.cli import main
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.planning import moveit_srdf as collision_pairs
from multipanda_py.planning.moveit_files import (
    CONTROLLERS,
    move_group_parameters,
    moveit_files,
    read_files,
)

pytestmark = pytest.mark.inline
SHIPPED = sorted(path.name for path in (CONFIG / "moveit").iterdir())


class Robot:
    """URDF and SRDF, parsed by pinocchio."""

    def __init__(self, folder):
        urdf, srdf = str(folder / "cell.urdf"), str(folder / "cell.srdf")
        self.model = pin.buildModelFromUrdf(urdf)
        self.solids = pin.buildGeomFromUrdf(self.model, urdf, pin.COLLISION)
        self.solids.addAllCollisionPairs()
        self.all_pairs = self.pairs()
        pin.removeCollisionPairs(self.model, self.solids, srdf)
        self.checked = self.pairs()
        pin.loadReferenceConfigurations(self.model, srdf, False)
        self.srdf = ElementTree.parse(srdf).getroot()
        self.urdf = ElementTree.parse(urdf).getroot()

    def pairs(self):
        """Return the checked pairs of links."""
        frames, solids = self.model.frames, self.solids.geometryObjects
        names = [frames[solid.parentFrame].name for solid in solids]
        found = (frozenset((names[p.first], names[p.second])) for p in self.solids.collisionPairs)
        return {pair for pair in found if len(pair) == 2}

    def touching(self, q):
        """Return whether a checked pair is in contact."""
        data, placed = self.model.createData(), pin.GeometryData(self.solids)
        return pin.computeCollisions(self.model, data, self.solids, placed, q, True)


@pytest.fixture(scope="module", params=SHIPPED)
def robot(request):
    return Robot(CONFIG / "moveit" / request.param)


def table(folder, name):
    return yaml.safe_load((CONFIG / "moveit" / folder / name).read_text())


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_files_match_command_output(name, tmp_path, capsys):
    cell = CONFIG / f"{name}.yaml"
    assert main(["moveit", str(cell), "-o", str(tmp_path / "new")]) == 0
    assert "groups: " in capsys.readouterr().out
    for path in (tmp_path / "new").iterdir():
        shipped = CONFIG / "moveit" / name / path.name
        assert path.read_text() == shipped.read_text(), (
            f"run: multipanda moveit config/{name}.yaml"
        )
    assert {p.name for p in shipped.parent.iterdir()} == {p.name for p in path.parent.iterdir()}


def test_names_in_srdf_exist_in_urdf(robot):
    assert robot.srdf.get("name") == robot.urdf.get("name")
    links = {link.get("name") for link in robot.urdf.iter("link")}
    joints = {joint.get("name") for joint in robot.urdf.iter("joint")}
    groups = {group.get("name") for group in robot.srdf.findall("group")}
    for element in robot.srdf.iter():
        for key, value in element.attrib.items():
            if key in ("link1", "link2", "base_link", "tip_link", "parent_link", "child_link"):
                assert value in links, ElementTree.tostring(element)
            elif key in ("group", "parent_group") or (element.tag, key) == ("group", "name"):
                assert value in groups
            elif element.tag in ("joint", "passive_joint") and key == "name":
                assert value in joints
            elif element.tag == "link":
                assert value in links


def test_chain_of_group_has_joints_of_arm(robot):
    parents = {j.find("child").get("link"): j for j in robot.urdf.iter("joint")}
    for group in robot.srdf.findall("group"):
        if (chain := group.find("chain")) is not None:
            link, moving = chain.get("tip_link"), []
            while link != chain.get("base_link"):
                joint = parents[link]
                moving += [joint.get("name")] * (joint.get("type") != "fixed")
                link = joint.find("parent").get("link")
            prefix = f"{group.get('name')}_fr3_joint"
            assert moving[::-1] == [f"{prefix}{n}" for n in range(1, 8)]


def test_ready_is_free_and_folded_arm_collides(robot):
    q = robot.model.referenceConfigurations["ready"]
    assert np.abs(q).sum() > 2.0 * len(robot.model.names) / 10
    assert not robot.touching(q)
    folded = q.copy()
    for joint, angle in ((2, -1.7), (4, -3.0), (6, 0.6)):  # moves the hand to the base
        [name] = [
            n for n in robot.model.names if n.endswith(f"joint{joint}") and "finger" not in n
        ][:1]
        folded[robot.model.joints[robot.model.getJointId(name)].idx_q] = angle
    assert robot.touching(folded)


def test_pairs_marked_never_do_not_collide(robot):
    """Seeds other than those of the decision, and both arms at once."""
    never = {
        frozenset((e.get("link1"), e.get("link2")))
        for e in robot.srdf.iter("disable_collisions")
        if e.get("reason") == "Never"
    }
    assert never
    solids, frames = robot.solids.copy(), robot.model.frames
    solids.removeAllCollisionPairs()
    links = [frames[solid.parentFrame].name for solid in solids.geometryObjects]
    for first, second in combinations(range(len(links)), 2):
        if frozenset((links[first], links[second])) in never:
            solids.addCollisionPair(pin.CollisionPair(first, second))
    data, placed = robot.model.createData(), pin.GeometryData(solids)
    random = np.random.default_rng(77)
    low, high = robot.model.lowerPositionLimit, robot.model.upperPositionLimit
    for _ in range(2000):
        q = random.uniform(low, high)
        assert not pin.computeCollisions(robot.model, data, solids, placed, q, True), q


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_configurations_beyond_half_rotation_were_not_sampled(model):
    """FR3 joint 6 rotates to 4.5 rad, UR5e joints by two rotations; one covers all poses."""
    [arm] = describe_arms(cell(("a", {"model": model, "gripper": False})))
    lower, upper = collision_pairs.Geometry(arm).postures()
    span = arm.limits.upper - arm.limits.lower
    assert upper - lower == pytest.approx(np.minimum(span, 2.0 * np.pi), abs=1e-3)
    whole = span < 2.0 * np.pi
    assert upper[whole] == pytest.approx(arm.limits.upper[whole], abs=1e-3)


def test_pairs_across_arms_are_checked():
    robot = Robot(CONFIG / "moveit" / "dual_moveit")
    left_out = robot.all_pairs - robot.checked
    across = [pair for pair in left_out if len({name.split("_")[0] for name in pair}) == 2]
    assert across == []  # pinocchio excludes pairs of fixed bases


def test_limits_agree_with_urdf_and_data_sheet():
    limits = table("dual_moveit", "joint_limits.yaml")["joint_limits"]
    robot = Robot(CONFIG / "moveit" / "dual_moveit")
    moving = {j.get("name"): j for j in robot.urdf.iter("joint") if j.get("type") != "fixed"}
    assert set(limits) == set(moving)
    for name, limit in limits.items():
        assert limit["max_velocity"] == float(moving[name].find("limit").get("velocity"))
        assert limit["has_velocity_limits"]
        assert limit["has_acceleration_limits"]
        if "finger" not in name:  # FR3: 10 rad/s^2 for every joint
            assert limit["max_acceleration"] == 10.0


def test_every_group_has_solver_and_planners():
    solvers = table("dual_moveit", "kinematics.yaml")
    planners = table("dual_moveit", "ompl_planning.yaml")
    groups = Robot(CONFIG / "moveit" / "dual_moveit").srdf.findall("group")
    for group in groups:
        parts = [part.get("name") for part in group.findall("group")]
        assert set(planners[group.get("name")]["planner_configs"]) == {
            *planners["planner_configs"]
        }
        if group.find("chain") is not None:
            assert group.get("name") in solvers
        assert all(part in solvers for part in parts)
    assert {g.get("name") for g in groups} == {"left", "right", "both", "left_hand", "right_hand"}


def cell(*arms, law="joint_trajectory", **more):
    placed = {
        name: {**arm, "position": [0.0, float(i), 0.0]} for i, (name, arm) in enumerate(arms)
    }
    laws = {"follow": {"type": law}, **more}
    return CellConfig.from_dict({"arms": placed, "controllets": laws, "cell": {"name": "any"}})


def test_files_support_any_robot_and_number_of_arms(tmp_path, monkeypatch):
    """Three position-controlled arms of two makers, and a pair among three arms."""
    monkeypatch.setattr(collision_pairs, "RANDOM_CONFIGURATIONS", 100)
    files = moveit_files(
        cell(
            ("a", {"model": "ur5e", "interfaces": ["position"]}),
            ("b", {"model": "ur5e", "interfaces": ["position"]}),
            ("c", {"model": "kinova_gen3", "interfaces": ["position"]}),
            law="joint_position",
        )
    )
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    robot = Robot(tmp_path)
    groups = {g.get("name") for g in robot.srdf.findall("group")}
    assert {"a", "b", "c", "all"} <= groups
    assert not robot.touching(robot.model.referenceConfigurations["ready"])
    simple = yaml.safe_load(files["moveit_controllers.yaml"])["moveit_simple_controller_manager"]
    assert len(simple["a/follow"]["joints"]) == 6
    assert read_files(tmp_path) == files
    pair = {"type": "joint_trajectory", "arms": ["left", "middle"]}
    srdf = moveit_files(cell(("left", {}), ("middle", {}), ("right", {}), pair=pair))["cell.srdf"]
    assert '<group name="left_middle">' in srdf


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        (lambda: cell(("left", {}), law="joint_impedance"), r"\bleft\b"),
        (lambda: cell(("both", {}), ("right", {})), r"\bboth\b"),
    ],
)
def test_unsupported_cell_is_refused(config, reported):
    with pytest.raises(ConfigurationError, match=reported):
        moveit_files(config())


def test_command_reports_fault_and_writes_nothing(tmp_path, capsys):
    (tmp_path / "bad.yaml").write_text(
        "/**:\n  ros__parameters:\n    arms: {left: {model: fr3}}\n"
    )
    assert main(["moveit", str(tmp_path / "bad.yaml"), "-o", str(tmp_path / "out")]) == 1
    assert " left" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_missing_files_of_folder_are_named(tmp_path):
    with pytest.raises(ConfigurationError, match=r"cell\.urdf, cell\.srdf, cell\.scene, kin"):
        read_files(tmp_path)


@pytest.mark.parametrize("by", sorted(CONTROLLERS))
def test_parameters_of_move_group(by):
    files = read_files(CONFIG / "moveit" / "dual_moveit")
    parameters = move_group_parameters(files, by, "lab")
    for pipeline in parameters["planning_pipelines"]:
        assert parameters[pipeline]["planning_plugins"]
    manager = parameters["moveit_controller_manager"]
    if by == "ros_control":
        assert manager == "moveit_ros_control_interface/Ros2ControlManager"
        assert parameters["ros_control_namespace"] == "/lab"
    else:
        named = parameters["moveit_simple_controller_manager"]["controller_names"]
        assert "dual_joint_trajectory_controller" in named
