# SPDX-License-Identifier: Apache-2.0
"""Chains of arbitrary descriptions, against pinocchio's and MuJoCo's own parsers."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.robots.read_urdf import read_urdf

pytestmark = pytest.mark.inline

LIMIT = '<limit lower="-2" upper="2.5" velocity="2" effort="50"/>'
INERTIA = 'ixx="0.02" iyy="0.03" izz="0.025" ixy="0.001" ixz="-0.002" iyz="0.0005"'


def numbers(values):
    return " ".join(f"{value:.17g}" for value in values)


def link(rng, name):
    return (
        f'<link name="{name}"><inertial><origin xyz="{numbers(rng.uniform(-0.1, 0.1, 3))}" '
        f'rpy="{numbers(rng.uniform(-3, 3, 3))}"/><mass value="{rng.uniform(0.3, 3):.6f}"/>'
        f"<inertia {INERTIA}/></inertial></link>"
    )


def joint(rng, name, kind, parent, child):
    axis = rng.normal(size=3)
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{numbers(rng.uniform(-0.3, 0.3, 3))}" '
        f'rpy="{numbers(rng.uniform(-3, 3, 3))}"/><axis xyz="{numbers(axis)}"/>{LIMIT}</joint>'
    )


def random_tree(rng, moving, kinds_of=("revolute", "continuous")):
    """Return a chain with fixed joints, fixed side bodies and another arm, and its tip."""
    parts, parent = [link(rng, "torso")], "torso"
    kinds = []
    for _ in range(moving):
        kinds += ["fixed"] * rng.integers(0, 3) + [rng.choice(kinds_of)]
    kinds += ["fixed"] * rng.integers(0, 3)
    for index, kind in enumerate(kinds):
        name = f"l{index}"
        parts += [link(rng, name), joint(rng, f"j{index}", kind, parent, name)]
        if rng.random() < 0.4:
            parts += [link(rng, f"side{index}"), joint(rng, f"s{index}", "fixed", name,
                                                       f"side{index}")]  # fmt: skip
        parent = name
    parts += [link(rng, "other"), joint(rng, "o", "revolute", "torso", "other")]
    return f'<robot name="tree">{"".join(parts)}</robot>', parent


def agree(arm, own, tip, rng):
    """Compare pose and Jacobian of the tip, and mass matrix, with pinocchio's own model."""
    own_data = own.createData()
    model = build_pinocchio(arm)
    model.armature = np.zeros(model.nv)
    data, frame, here = model.createData(), model.getFrameId(arm.flange_frame), own.getFrameId(tip)
    for q in rng.uniform(-2, 2, (3, model.nv)):
        pin.crba(model, data, q)
        pin.framesForwardKinematics(model, data, q)
        pin.crba(own, own_data, q)
        pin.framesForwardKinematics(own, own_data, q)
        expected = own_data.oMf[here].homogeneous
        np.testing.assert_allclose(data.oMf[frame].homogeneous, expected, atol=1e-9)
        np.testing.assert_allclose(np.triu(data.M), np.triu(own_data.M), atol=1e-9)
        columns = [
            pin.computeFrameJacobian(m, d, q, f, pin.LOCAL_WORLD_ALIGNED)
            for m, d, f in ((model, data, frame), (own, own_data, here))
        ]
        np.testing.assert_allclose(*columns, atol=1e-9)


@pytest.mark.parametrize("slides", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_chain_has_any_axes_and_intermediate_fixed_joints(tmp_path, seed, slides):
    rng = np.random.default_rng(seed)
    kinds_of = ("revolute", "continuous", "prismatic") if slides else ("revolute", "continuous")
    text, tip = random_tree(rng, 1 + seed, kinds_of)
    path = tmp_path / "tree.urdf"
    path.write_text(text)
    arm = ArmDescription("arm", read_robot(urdf=path, base="torso", tip=tip))
    full = pin.buildModelFromXML(text.replace('type="continuous"', 'type="revolute"'))
    own = pin.buildReducedModel(full, [full.getJointId("o")], np.zeros(full.nq))
    agree(arm, own, tip, rng)
    kinds = [part.get("type") for part in ElementTree.fromstring(text).findall("joint")]
    assert arm.limits.endless.sum() == kinds.count("continuous")
    assert arm.limits.slides.sum() == kinds.count("prismatic")


def test_tree_of_100_links_and_two_arms_is_read(tmp_path):
    rng = np.random.default_rng(0)
    parts = [link(rng, "torso")]
    for side in ("left", "right"):
        parent = "torso"
        for number in range(50):
            name = f"{side}_{number}"
            kind = "revolute" if number % 8 == 0 else "fixed"
            parts += [link(rng, name), joint(rng, f"{name}_joint", kind, parent, name)]
            parent = name
    path = tmp_path / "two.urdf"
    path.write_text(f'<robot name="two">{"".join(parts)}</robot>')
    arms = [read_robot(urdf=path, base="torso", tip=f"{side}_49") for side in ("left", "right")]
    for side, robot in zip(("left", "right"), arms):
        assert robot.n_joints == 7
        assert robot.joints[0].name == f"{side}_0_joint"
    tree = read_urdf(path)
    assert len(tree.bodies) == 101
    total = sum(body.mass for body in tree.bodies.values())
    ours = sum(part.inertial.mass for robot in arms for part in robot.links[1:])
    assert ours + tree.bodies["torso"].mass == pytest.approx(total)


MJCF = """
<mujoco><compiler angle="degree"/><worldbody><body name="base"><geom size="0.1"/>
  <body name="one" pos="0.1 0 0.3" euler="20 0 40"><inertial pos="0 0.1 0.02" mass="2"
      fullinertia="0.02 0.03 0.025 0.001 -0.002 0.0005"/>
    <joint name="a" axis="0.3 -1 0.2" pos="0.02 0.01 -0.03" range="-120 100" armature="0.2"/>
    <body name="plate" pos="0 0.02 0.1" euler="0 10 0"><geom size="0.03" mass="0.4"/>
      <body name="two" pos="0 0.3 0.1" euler="0 30 0"><geom size=".05" mass="1.5"/>
        <joint name="b" axis="0 1 0" pos="0 0 0.05" armature="0.1"/>
        <site name="tool" pos="0.1 0 0.2" euler="10 20 30"/>
      </body></body></body></body></worldbody>
<actuator><motor joint="a" gear="50" ctrllimited="true" ctrlrange="-2 2"/>
  <position joint="b" kp="100" forcerange="-30 30"/></actuator></mujoco>
"""


def test_mjcf_chain_agrees_with_mujoco(tmp_path):
    path = tmp_path / "arm.xml"
    path.write_text(MJCF)
    (tmp_path / "more.yaml").write_text("mjcf: arm.xml\nbase: base\ntip: tool\nvelocity: 2.0\n")
    robot = read_robot(tmp_path / "more.yaml")
    assert robot.limits.torque.tolist() == [100.0, 30.0]
    np.testing.assert_allclose(robot.limits.lower, [-np.radians(120), -np.inf])
    np.testing.assert_allclose(robot.armature, [0.2, 0.1])
    world = mujoco.MjModel.from_xml_path(str(path))
    data, site = mujoco.MjData(world), world.site("tool").id
    model = build_pinocchio(ArmDescription("arm", robot))
    own, frame = model.createData(), model.getFrameId("arm_more_tool")
    mass = np.zeros((2, 2))
    for q in np.random.default_rng(4).uniform(-2, 2, (5, 2)):
        data.qpos[:] = q
        mujoco.mj_forward(world, data)
        pin.crba(model, own, q)
        pin.framesForwardKinematics(model, own, q)
        np.testing.assert_allclose(own.oMf[frame].translation, data.site_xpos[site], atol=1e-9)
        np.testing.assert_allclose(
            own.oMf[frame].rotation, data.site_xmat[site].reshape(3, 3), atol=1e-9
        )
        try:
            mujoco.mj_fullM(world, data, mass)  # MuJoCo 4
        except TypeError:
            mujoco.mj_fullM(world, mass, data.qM)
        np.testing.assert_allclose(np.triu(own.M), np.triu(mass), atol=1e-6)


INERTIAL = f'<inertial><mass value="1"/><inertia {INERTIA}/></inertial>'


def body(name, inertial=INERTIAL):
    return f'<link name="{name}">{inertial}</link>'


def turning(name, parent, child, limit=LIMIT, kind="revolute"):
    ends = f'<parent link="{parent}"/><child link="{child}"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{limit}</joint>'


def urdf(changed):
    parts = {"base": '<link name="base"/>', "one": body("one"), "two": body("two"),
             "a": turning("a", "base", "one"), "b": turning("b", "one", "two")}  # fmt: skip
    return f"<robot name='r'>{''.join((parts | changed).values())}</robot>"


HEAVY = INERTIAL.replace('iyy="0.03"', 'iyy="0.3"')
REFUSED = [
    (turning("b", "one", "two", kind="planar"), "joint b: .*'planar'.*'revolute'"),
    (turning("b", "one", "two", LIMIT + '<mimic joint="a"/>'), "joint b: .*'revolute that mimics"),
    (turning("b", "one", "two", ""), r"lower: .*\bjoint b\b"),
    (turning("b", "one", "two", "", "continuous"), r"velocity: .*\bjoint b\b"),
    (turning("a", "one", "two"), "joint a: "),
    (turning("b", "one", "three"), "joint b: .*'three'"),
    (turning("b", "one", "two", LIMIT.replace('"-2"', '"${-pi}"')),
     r"joint b: limit lower: .*'\$\{-pi\}'.*xacro"),
    (turning("b", "one", "two", LIMIT.replace('"-2"', '"3"')), r"\blower\b.*\bupper\b"),
    (turning("b", "one", "two", LIMIT + '<axis xyz="0 0 0"/>'), "axis '0 0 0'"),
    (turning("b", "two", "one"), "link one: .* a .* b "),
    (turning("b", "base", "two") + body("far") + turning("c", "far", "base"),
     "tip: .*'one'.*'far'"),
    (turning("b", "one", "two", kind="hinge"), "joint b: type: .*'hinge'.*'revolute', "),
    (turning("b", "one", "two").replace(' type="revolute"', ""), "joint b: type: .*''"),
    (turning("b", "one", "two") + turning("c", "two", "base"), "ring of joints"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        *(({"b": joint}, sentence) for joint, sentence in REFUSED),
        ({"two": body("one")}, r"link one\b"),
        (
            {"two": body("two", "")},
            r"link two: .*\binertial\b",
        ),
        ({"two": body("two", HEAVY)}, r"link two: .*\b1 kg\b.*moments"),
        ({"two": body("two", INERTIAL.replace('"1"', '"-1"'))}, "link two:.*mass -1 kg"),
    ],
)
def test_invalid_urdf_is_refused_with_its_file(tmp_path, changed, sentence):
    path = tmp_path / "r.urdf"
    path.write_text(urdf(changed))
    base = "one" if "'one'" in sentence else "base"
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        read_robot(urdf=path, base=base, tip="two")
    assert all(str(tmp_path) in fault for fault in refused.value.faults)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('<joint name="b"', '<joint type="ball" name="b"', "b:.*type 'ball'"),
        ('<joint name="b"', '<joint type="slide" name="b"',
         r"limits: .*\bjoint 2\b"),
        ('<joint name="b"', '<joint name="c" axis="1 0 0"/><joint name="b"',
         r"body two: .*\b2\b"),
        ("<worldbody>", '<option gravity="0 0 -1.62"/><worldbody>',
         r"gravity:.*\[0.0, 0.0, -1.62\].*\[0.0, 0.0, -9.81\] m/s\^2"),
        ("<worldbody>", '<asset><mesh file="nowhere.stl"/></asset><worldbody>',
         r"nowhere\.stl"),
        ("<actuator>", "<actuators>", r"arm\.xml: .*Line number"),
        (' forcerange="-30 30"', "", "torque: missing.*joint b"),
    ],
)  # fmt: skip
def test_invalid_mjcf_is_refused_with_reason(tmp_path, old, new, sentence):
    assert old in MJCF
    path = tmp_path / "arm.xml"
    path.write_text(MJCF.replace(old, new))
    (tmp_path / "more.yaml").write_text("velocity: 2.0")
    with pytest.raises(ConfigurationError, match=sentence):
        read_robot(tmp_path / "more.yaml", mjcf=path, base="base", tip="tool")


def test_five_lines_describe_arm(tmp_path):
    """Defaults follow from limits and inertia; the ready configuration is within limits."""
    path = tmp_path / "r.urdf"
    text, tip = random_tree(np.random.default_rng(11), 6)
    path.write_text(text)
    robot = read_robot(urdf=path, base="torso", tip=tip)
    limits = robot.limits
    for name, values in robot.figures.items():
        assert np.isfinite(values).all(), name
    for bound, maximum in itertools.pairwise(("leader_damping", "most_leader_damping")):
        assert (np.array(robot.value(bound)) <= robot.value(maximum)).all()
    assert (np.array(robot.value("contact_torque")) <= limits.torque).all()
    assert ((robot.ready >= limits.lower) & (robot.ready <= limits.upper)).all()
    assert sum(map(len, robot.sections)) == 7
