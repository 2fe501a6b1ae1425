# SPDX-License-Identifier: Apache-2.0
"""Parallel gripper from data files: its figures, its mass on an arm, and refusals."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import ArmGravity, ArmModel
from multipanda_py.robots.models import DATA_FOLDER, FRANKA_HAND, MODELS
from multipanda_py.robots.read_gripper import read_gripper
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.simulation.scene_mjcf import build_scene
from multipanda_py.state import ArmState

pytestmark = pytest.mark.inline

FOLDER = Path(__file__).parents[2] / "examples" / "wide_gripper"
YAML = FOLDER / "wide_gripper.yaml"


@pytest.fixture
def changed(tmp_path):
    """Return a function that copies the example with changes in its YAML and URDF."""

    def change(in_urdf=(), in_yaml=()):
        for path, changes in ((FOLDER / "wide_gripper.urdf", in_urdf), (YAML, in_yaml)):
            text = path.read_text()
            for old, new in changes:
                assert old in text
                text = text.replace(old, new)
            (tmp_path / path.name).write_text(text)
        return tmp_path / YAML.name

    return change


def jaws_in_housing(gripper, q):
    """Return the centres of mass of both fingers in the housing, (2, 3)."""
    return [
        np.array(f.origin.position)
        + f.origin.rotation @ (np.array(f.inertial.com) + q * np.array(f.axis))
        for f in gripper.fingers
    ]


def test_fingers_agree_with_pinocchio_on_gripper_urdf():
    gripper = read_gripper(YAML)
    model = pin.buildModelFromUrdf(str(FOLDER / "wide_gripper.urdf"))
    data = model.createData()
    for q in (0.0, 0.02, 0.055):
        pin.centerOfMass(model, data, np.array([q, -q]))
        for number, centre in enumerate(jaws_in_housing(gripper, q), start=1):
            body = model.inertias[number]
            np.testing.assert_allclose(centre, data.oMi[number].act(body.lever), atol=1e-12)
            assert gripper.fingers[number - 1].inertial.mass == pytest.approx(body.mass)
    assert (gripper.min_width, gripper.max_width) == pytest.approx((0.0, 0.11))
    assert (gripper.velocity, gripper.speed, gripper.force) == (0.08, 0.16, 60.0)
    assert [finger.pad for finger in gripper.fingers] == [1, 1]


REVERSED = [
    ('<axis xyz="0 1 0"/>\n    <limit lower="0"', '<axis xyz="0 -2 0"/>\n    <limit lower="0"'),
    ('lower="0" upper="0.055"', 'lower="-0.055" upper="0"'),
    ('lower="-0.055" upper="0" velocity="0.08" effort="60"/>\n    <mimic joint="slide_a" '
     'multiplier="-1"/>', 'lower="0" upper="0"/>\n    <mimic joint="slide_a" multiplier="1"/>'),
]  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [REVERSED, [('    <mimic joint="slide_a" multiplier="-1"/>\n', "")]],
    ids=["positive closes", "no mimic"],
)
def test_equivalent_descriptions_give_same_finger_positions(changed, change):
    gripper, other = read_gripper(YAML), read_gripper(changed(change))
    assert (other.lower, other.upper) == pytest.approx((gripper.lower, gripper.upper))
    for q in (0.0, 0.055):
        np.testing.assert_allclose(
            jaws_in_housing(other, q), jaws_in_housing(gripper, q), atol=1e-12
        )


def test_closed_fingers_may_have_nonzero_width(changed):
    gripper = read_gripper(changed(in_yaml=[("tcp:", "closed_width: 0.01\ntcp:")]))
    assert (gripper.min_width, gripper.max_width) == pytest.approx((0.01, 0.12))
    closed = jaws_in_housing(gripper, gripper.lower)
    np.testing.assert_allclose(closed, jaws_in_housing(read_gripper(YAML), 0.0), atol=1e-12)


def test_pad_of_franka_hand_is_rubber_block():
    assert [finger.contact[finger.pad].color for finger in FRANKA_HAND.fingers] == ["rubber"] * 2


def test_gravity_of_arm_with_gripper_agrees_with_mujoco():
    base = Pose.from_rpy([0.3, -0.2, 0.5], [0.4, -1.1, 2.0])
    centre = np.array(base.position), np.array(base.rotation)
    gripper = read_gripper(YAML)
    arm = ArmDescription("arm", "ur5e", *centre, hand=gripper, compensates_gravity=False)
    bare = ArmDescription("arm", "ur5e", *centre, compensates_gravity=False)
    heavier = [pin.computeTotalMass(pin.buildModelFromXML(arm_urdf(a))) for a in (arm, bare)]
    own = pin.computeTotalMass(pin.buildModelFromUrdf(str(FOLDER / "wide_gripper.urdf")))
    # Both omit bodies fixed to the world or base, hence the housing of the gripper alone.
    assert heavier[0] - heavier[1] == pytest.approx(own + 0.9)
    world = build_scene([arm]).compile()
    data = mujoco.MjData(world)
    row = np.zeros(1, record_dtype(1, 0, 1, arm.n_joints))
    state = ArmState("arm", arm.limits, row["arms"][0, :1].reshape(()))
    model = ArmModel(arm)
    model.attach(state)
    gravity = ArmGravity(arm, state, 1e-3)
    n, rng = arm.n_joints, np.random.default_rng(3)
    for _ in range(20):
        state.q[:] = rng.uniform(arm.limits.lower, arm.limits.upper)
        data.qpos[n:] = arm.finger_opening
        data.qpos[:n] = state.q
        mujoco.mj_forward(world, data)
        model.update(state)
        gravity.update()
        np.testing.assert_allclose(state.tau_gravity, data.qfrc_bias[:n], atol=1e-6)
        tcp = data.site("arm_ur5e_hand_tcp").xpos
        expected = centre[1].T @ (tcp - centre[0])
        np.testing.assert_allclose(state.position_ee_in_base, expected, atol=1e-9)


@pytest.mark.parametrize(
    ("in_urdf", "in_yaml", "message"),
    [
        ([('"slide_b" type="prismatic"', '"slide_b" type="fixed"'),
          ('    <mimic joint="slide_a" multiplier="-1"/>\n', "")], [],
         r"\.urdf: .*\bslide_a \(prismatic\)"),
        ([('"slide_b" type="prismatic"', '"slide_b" type="revolute"')], [],
         r"\bslide_b .revolute that mimics"),
        ([('lower="0" upper="0.055" ', "")], [], r"\bslide_a: limit lower: "),
        ([(' effort="60"', "")], [], r"\bslide_a: limit effort: "),
        ([('effort="60"', 'effort="0"')], [], "limit effort: .* 0, .* 0$"),
        ([('upper="0.055"', 'upper="0"')], [], r"slide_a: limit:.*\[0, 0\] m"),
        ([('0 1 0"/>\n    <limit lower="-', '0 0 1"/>\n    <limit lower="-')], [],
         r"\bslide_a .*\bslide_b: "),
        ([('multiplier="-1"', 'multiplier="2"')], [], r"mimic: .*\bslide_a .*\b2\b"),
        ([('"jaw_b"', '"jaw_a"')], [], "link jaw_a:"),
        ([('<box size="0.024 0.012 0.07"/>', '<sphere radius="0.01"/>')], [],
         r"link jaw_a: collision: .*\bsphere\b"),
        ([], [("tcp: grasp_point", "tcp: palm")], "tcp:.*'palm'.*housing, grasp_po"),
        ([], [("tcp: grasp_point", "tcp: jaw_a")], "tcp:.*'jaw_a'.*link"),
        ([], [("mount: [0.0, ", "mount: [")], r"mount: .*\b6\b"),
        ([], [("tcp:", "closed_width: -0.1\ntcp:")], "closed_width:.*-0.1.*0 m"),
        ([], [("tcp:", "width: 0.1\ntcp:")], r"yaml: width: .*\burdf\b"),
        ([], [("urdf: wide_gripper", "urdf: nowhere")], "nowhere.urdf:"),
        ([], [("urdf: wide_gripper.urdf\n", "")], "yaml: urdf: "),
    ],
)  # fmt: skip
def test_invalid_gripper_is_refused_with_its_file(changed, in_urdf, in_yaml, message):
    with pytest.raises(ConfigurationError, match=message):
        read_gripper(changed(in_urdf, in_yaml))


def test_joint_name_shared_by_arm_and_gripper_is_refused(tmp_path):
    for kind in ("yaml", "urdf"):
        text = (DATA_FOLDER / f"ur5e.{kind}").read_text().replace("elbow_joint", "finger_joint1")
        (tmp_path / f"ur5e.{kind}").write_text(text)
    robot = read_robot(tmp_path / "ur5e.yaml")
    with pytest.raises(ConfigurationError, match="joint finger_joint1"):
        ArmDescription("arm", robot, hand=read_gripper(YAML))
    assert ArmDescription("arm", robot).gripper is None
    assert ArmDescription("arm", MODELS["ur5e"], hand=read_gripper(YAML)).gripper is not None
