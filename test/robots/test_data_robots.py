# SPDX-License-Identifier: Apache-2.0
"""Robots from data files, against published data of their makers."""

from __future__ import annotations

from xml.etree import ElementTree

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.dynamics.arm_dynamics import build_pinocchio
from multipanda_py.robots.models import DATA_FOLDER, MODELS
from multipanda_py.robots.read_robot import read_robot
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

R = np.pi / 2
# a, d [m], alpha, offset of theta [rad] by robot. UR5e: Universal Robots, "DH Parameters for
# calculations of kinematics and dynamics". Gen3: Kinova's user guide, "DH parameters, 7 DoF
# spherical wrist", with the lengths of its transformation matrices; its table omits that
# joints 5 and 7 are 0.35 mm apart. iiwa: KUKA's data sheet of the R820, the lengths 360,
# 420, 400 and 126 mm.
DH = {
    "ur5e": ((0, 0.1625, R, 0), (-0.425, 0, 0, 0), (-0.3922, 0, 0, 0), (0, 0.1333, R, 0),
             (0, 0.0997, -R, 0), (0, 0.0996, 0, 0)),
    "kinova_gen3": ((0, -0.15643 - 0.12838, R, 0), (0, -0.005375 - 0.006375, R, np.pi),
                    (0, -0.21038 - 0.21038, R, np.pi), (0, -0.006375 - 0.006375, R, np.pi),
                    (0, -0.20843 - 0.10593, R, np.pi), (0, -2 * 0.00017505, R, np.pi),
                    (0, -0.10593 - 0.061525, np.pi, np.pi)),
    "iiwa14": ((0, 0.36, -R, 0), (0, 0, R, 0), (0, 0.42, R, 0), (0, 0, -R, 0), (0, 0.4, -R, 0),
               (0, 0, R, 0), (0, 0.126, 0, 0)),
}  # fmt: skip
BASE = {"kinova_gen3": np.diag([1.0, -1.0, -1.0, 1.0])}
# Total mass [kg]: the same table; the specifications of the Gen3 with vision and the R820.
MASSES = {"ur5e": 21.7, "kinova_gen3": 8.2, "iiwa14": 29.9}
ROBOTS = list(DH)


def by_dh(name, q):
    """Return flange pose and Jacobian by the published table, (4, 4) and (6, n)."""
    pose, axes, origins = BASE.get(name, np.eye(4)), [], []
    for angle, (a, d, alpha, offset) in zip(q, DH[name]):
        axes.append(pose[:3, 2].copy())
        origins.append(pose[:3, 3].copy())
        c, s = np.cos(angle + offset), np.sin(angle + offset)
        ca, sa = np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array([[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s],
                                [0, sa, ca, d], [0, 0, 0, 1]])  # fmt: skip
    columns = [[*np.cross(z, pose[:3, 3] - p), *z] for z, p in zip(axes, origins)]
    return pose, np.array(columns).T


def pinocchio_of(arm):
    model = build_pinocchio(arm)
    return model, model.createData(), model.getFrameId(arm.ee_frame)


def pose_and_jacobian(model, data, frame, q):
    pin.computeJointJacobians(model, data, q)
    pin.updateFramePlacements(model, data)
    jacobian = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
    return data.oMf[frame].homogeneous, jacobian


@pytest.mark.parametrize("name", ROBOTS)
def test_pose_jacobian_and_masses_agree_with_published_data(name):
    model, data, frame = pinocchio_of(ArmDescription("arm", name))
    assert model.nv == model.nq == len(DH[name])
    masses = [link.inertial.mass for link in MODELS[name].links]
    assert sum(masses) == pytest.approx(MASSES[name], abs=0.02)
    np.testing.assert_allclose([i.mass for i in list(model.inertias)[1:]], masses[1:])
    for q in np.random.default_rng(1).uniform(-np.pi, np.pi, (20, model.nv)):
        ours, jacobian = pose_and_jacobian(model, data, frame, q)
        pose, expected = by_dh(name, q)
        np.testing.assert_allclose(ours, pose, atol=1e-5)
        np.testing.assert_allclose(jacobian, expected, atol=1e-5)


@pytest.mark.parametrize("name", ROBOTS)
def test_flange_agrees_with_pinocchio_on_original_description(name):
    """The joint axes are arbitrary; those of the iiwa are z, y, z, -y, z, y, z."""
    arm = ArmDescription("arm", name)
    own = pin.buildModelFromUrdf(str(DATA_FOLDER / f"{name}.urdf"))
    own_data, tip = own.createData(), own.getFrameId(arm.robot.flange.name)
    model, data, frame = pinocchio_of(arm)
    for q in np.random.default_rng(3).uniform(-np.pi, np.pi, (10, model.nv)):
        full = [
            part
            for joint, angle in zip(list(own.joints)[1:], q)
            for part in ((np.cos(angle), np.sin(angle)) if joint.nq == 2 else (angle,))
        ]
        pin.framesForwardKinematics(own, own_data, np.array(full))
        ours, _ = pose_and_jacobian(model, data, frame, q)
        np.testing.assert_allclose(ours, own_data.oMf[tip].homogeneous, atol=1e-9)


def test_continuous_joint_is_one_number_and_unlimited():
    arm = ArmDescription("arm", "kinova_gen3")
    kinds = [
        joint.get("type")
        for joint in ElementTree.fromstring(arm_urdf(arm)).findall("joint")
        if joint.get("name") in arm.joint_names
    ]
    assert kinds == ["continuous", "revolute"] * 3 + ["continuous"]
    assert build_pinocchio(arm).nq == 7
    scene = build_scene([arm]).compile()
    assert scene.jnt_limited.tolist() == [0, 1, 0, 1, 0, 1, 0]


@pytest.mark.parametrize("name", ROBOTS)
def test_mujoco_and_pinocchio_agree(name):
    arm = ArmDescription("arm", name)
    model, data, frame = pinocchio_of(arm)
    n = model.nv
    scene = build_scene([arm]).compile()
    world = mujoco.MjData(scene)
    site = scene.site(arm.ee_frame).id
    mass, jacobian = np.zeros((n, n)), np.zeros((6, n))
    for q in np.random.default_rng(2).uniform(-np.pi, np.pi, (10, n)):
        world.qpos[:] = q
        mujoco.mj_forward(scene, world)
        mujoco.mj_jacSite(scene, world, jacobian[:3], jacobian[3:], site)
        try:
            mujoco.mj_fullM(scene, world, mass)  # MuJoCo 4
        except TypeError:
            mujoco.mj_fullM(scene, mass, world.qM)
        pose, ours = pose_and_jacobian(model, data, frame, q)
        np.testing.assert_allclose(world.site_xpos[site], pose[:3, 3], atol=1e-9)
        np.testing.assert_allclose(world.site_xmat[site].reshape(3, 3), pose[:3, :3], atol=1e-9)
        np.testing.assert_allclose(jacobian, ours, atol=1e-9)
        np.testing.assert_allclose(mass, pin.crba(model, model.createData(), q), atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tip: tool0", "tip: hand", r"tip: .*'hand'.*\bbase_link, shoulder_link,"),
        (
            "tip: tool0",
            "tip: base_link",
            "tip: .*'base_link'",
        ),
        ("base: base_link", "base: tool0", "base: .*'tool0'|'tool0'"),
        ("base: base_link", "unbased: base_link", "unbased:.*urdf, mjcf, base"),
        ("ready: [0.0, ", "ready: [", r"ready: .*\b5\b.*\b6\b"),
        (
            "jerk: [5000.0",
            "jerk: [fast",
            "shoulder_pan_joint:.*'fast'",
        ),
        (
            "tip: tool0",
            "tip: tool0\nlower: {elbow: 0.0}",
            "lower: .*'elbow'",
        ),
        ("  lag:", "  leg:", "figures:.*'leg'.*stiffness, most_stiffness"),
        (
            "  base_link: [[[0.0",
            "  bass: [[[0.0",
            "capsules:.*link 'bass'.*base_",
        ),
        (
            "overlapping: [[4, 6]]",
            "overlapping: [[4, 7]]",
            r"overlapping: .*\b7\b.*\b6$",
        ),
        ("urdf: ur5e.urdf", "urdf: nowhere.urdf", r"nowhere\.urdf: "),
        ("overlapping: [[4, 6]]", "overlapping: [[4]]", r"overlapping: .*\[4\]"),
        ("sections: [[0, 1, 2]", "sections: [[0, 1]", r"sections: .*\b6\b"),
        ("ready: [0.0", "ready: [7.0", r"shoulder_pan_joint:.*7 rad.*\[-6.28"),
        ("armature: [0.1", "armature: [-0.1", r"armature: .*-0\.1\b"),
        (
            "armature: [0.1",
            "torque: {elbow_joint: -3}\narmature: [0.1",
            r"torque: .*-3\b.*\belbow_joint\b",
        ),
        ("base: base_link", "base: 7", r"base: .*\b7\b"),
        ("tare_torque: [4.0", "tare_torque: [-4.0", "figures: tare_torque:.*-4"),
        (
            "armature: [0.1",
            "compensates_gravity: 1\narmature: [0.1",
            r"compensates_gravity: .*\b1\b",
        ),
    ],
)
def test_unusable_data_are_refused_with_message(tmp_path, old, new, message):
    text = (DATA_FOLDER / "ur5e.yaml").read_text()
    assert old in text
    (tmp_path / "ur5e.urdf").write_text((DATA_FOLDER / "ur5e.urdf").read_text())
    (tmp_path / "robot.yaml").write_text(text.replace(old, new))
    with pytest.raises(ConfigurationError, match=message):
        read_robot(tmp_path / "robot.yaml")


def test_ur5e_has_no_hand():
    assert not MODELS["ur5e"].has_hand
    with pytest.raises(ConfigurationError, match="got true, allowed false"):
        ArmDescription("arm", "ur5e", hand=True)


def test_negative_effort_was_reported_as_armature(tmp_path):
    text = (DATA_FOLDER / "ur5e.urdf").read_text()
    (tmp_path / "ur5e.urdf").write_text(text.replace('effort="28', 'effort="-28', 1))
    (tmp_path / "robot.yaml").write_text("{urdf: ur5e.urdf, base: base_link, tip: tool0}")
    with pytest.raises(ConfigurationError, match=r"torque: .*-28 .*\bwrist_1_joint\b"):
        read_robot(tmp_path / "robot.yaml")
