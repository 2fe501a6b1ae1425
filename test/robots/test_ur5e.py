# SPDX-License-Identifier: Apache-2.0
"""A robot that is data: the UR5e against the figures that its maker publishes."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.dynamics.arm_model import build_pinocchio
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.models import DATA, MODELS
from multipanda_py.robots.read import read_robot
from multipanda_py.simulation.mjcf import build_scene

# a [m], d [m], alpha [rad], mass [kg]: Universal Robots, "DH Parameters for calculations of
# kinematics and dynamics", table of the UR5e
DH = ((0, 0.1625, np.pi / 2), (-0.425, 0, 0), (-0.3922, 0, 0),
      (0, 0.1333, np.pi / 2), (0, 0.0997, -np.pi / 2), (0, 0.0996, 0))  # fmt: skip
MASSES = (3.761, 8.058, 2.846, 1.37, 1.3, 0.365)
ARM = ArmDescription("arm", "ur5e")


def by_dh(q):
    """Pose of the flange and Jacobian at it by the published table, (4, 4) and (6, 6)."""
    pose, axes, places = np.eye(4), [], []
    for angle, (a, d, alpha) in zip(q, DH):
        axes.append(pose[:3, 2].copy())
        places.append(pose[:3, 3].copy())
        c, s, ca, sa = np.cos(angle), np.sin(angle), np.cos(alpha), np.sin(alpha)
        pose = pose @ np.array([[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s],
                                [0, sa, ca, d], [0, 0, 0, 1]])  # fmt: skip
    columns = [[*np.cross(z, pose[:3, 3] - p), *z] for z, p in zip(axes, places)]
    return pose, np.array(columns).T


def test_pose_jacobian_and_masses_are_those_that_the_maker_publishes():
    model = build_pinocchio(ARM)
    data, frame = model.createData(), model.getFrameId(ARM.ee_frame)
    assert model.nv == 6
    np.testing.assert_allclose([i.mass for i in list(model.inertias)[1:]], MASSES)
    for q in np.random.default_rng(1).uniform(-np.pi, np.pi, (20, 6)):
        pose, jacobian = by_dh(q)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        ours = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        np.testing.assert_allclose(data.oMf[frame].homogeneous, pose, atol=1e-5)
        np.testing.assert_allclose(ours, jacobian, atol=1e-5)


def test_mujoco_and_pinocchio_agree():
    model = build_pinocchio(ARM)
    data, frame = model.createData(), model.getFrameId(ARM.ee_frame)
    scene = build_scene([ARM]).compile()
    world = mujoco.MjData(scene)
    site = scene.site(ARM.ee_frame).id
    mass, jacobian = np.zeros((6, 6)), np.zeros((6, 6))
    for q in np.random.default_rng(2).uniform(-np.pi, np.pi, (10, 6)):
        world.qpos[:] = q
        mujoco.mj_forward(scene, world)
        mujoco.mj_jacSite(scene, world, jacobian[:3], jacobian[3:], site)
        try:
            mujoco.mj_fullM(scene, world, mass)  # MuJoCo 4
        except TypeError:
            mujoco.mj_fullM(scene, mass, world.qM)
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        ours = pin.getFrameJacobian(model, data, frame, pin.LOCAL_WORLD_ALIGNED)
        np.testing.assert_allclose(world.site_xpos[site], data.oMf[frame].translation, atol=1e-9)
        np.testing.assert_allclose(jacobian, ours, atol=1e-9)
        np.testing.assert_allclose(mass, pin.crba(model, model.createData(), q), atol=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tip: tool0", "tip: hand", "tip: got 'hand', allowed a link on a chain that begins with"),
        ("ready: [0.0, ", "ready: [", "robot robot: ready: got 5, allowed 6, one per joint"),
        ("jerk:", "jolt:", "jerk: missing"),
        ("urdf: ur5e.urdf", "urdf: nowhere.urdf", "cannot be read"),
    ],
)
def test_unusable_data_are_refused_with_both_numbers(tmp_path, old, new, message):
    text = (DATA / "ur5e.yaml").read_text()
    assert old in text
    (tmp_path / "ur5e.urdf").write_text((DATA / "ur5e.urdf").read_text())
    (tmp_path / "robot.yaml").write_text(text.replace(old, new))
    with pytest.raises(ConfigurationError, match=message):
        read_robot(tmp_path / "robot.yaml")


def test_the_hand_of_this_package_does_not_fit():
    assert not MODELS["ur5e"].has_hand
    with pytest.raises(ConfigurationError, match="got true, allowed false"):
        ArmDescription("arm", "ur5e", hand=True)
