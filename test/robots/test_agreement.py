# SPDX-License-Identifier: Apache-2.0
"""Agreement of the generated URDF in pinocchio with the generated MJCF in MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.robots import ArmDescription
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = pytest.mark.inline

STATES = 25


def states(arm, seed):
    """Yield random positions and velocities within the limits."""
    rng = np.random.default_rng(seed)
    for _ in range(STATES):
        yield (
            rng.uniform(arm.limits.lower, arm.limits.upper),
            rng.uniform(-arm.limits.velocity, arm.limits.velocity),
        )


def set_state(pair, q, dq):
    """Return MuJoCo data of a state, with fingers at their opening."""
    data = mujoco.MjData(pair.mujoco)
    for i, name in enumerate(pair.arm.joint_names):
        data.joint(name).qpos = q[i]
        data.joint(name).qvel = dq[i]
    for name in pair.arm.finger_joint_names:
        data.joint(name).qpos = pair.arm.finger_opening
    mujoco.mj_forward(pair.mujoco, data)
    return data


def test_pose_and_jacobian(pair):
    frame = pair.pinocchio.getFrameId(pair.arm.ee_frame)
    site = pair.mujoco.site(pair.arm.ee_frame).id
    data = pair.pinocchio.createData()
    jacobian = np.zeros((6, pair.mujoco.nv))
    for q, dq in states(pair.arm, 1):
        other = set_state(pair, q, dq)
        pin.forwardKinematics(pair.pinocchio, data, q)
        pose = pin.updateFramePlacement(pair.pinocchio, data, frame)
        np.testing.assert_allclose(other.site_xpos[site], pose.translation, atol=1e-9)
        np.testing.assert_allclose(other.site_xmat[site].reshape(3, 3), pose.rotation, atol=1e-9)
        mujoco.mj_jacSite(pair.mujoco, other, jacobian[:3], jacobian[3:], site)
        expected = pin.computeFrameJacobian(
            pair.pinocchio, data, q, frame, pin.LOCAL_WORLD_ALIGNED
        )
        np.testing.assert_allclose(jacobian[:, :7], expected, atol=1e-9)


def test_mass_matrix_and_bias(pair):
    data = pair.pinocchio.createData()
    mass = np.zeros((pair.mujoco.nv, pair.mujoco.nv))
    for q, dq in states(pair.arm, 2):
        other = set_state(pair, q, dq)
        full_mass = getattr(other, "qM", None)
        if full_mass is not None:
            mujoco.mj_fullM(pair.mujoco, mass, full_mass)
        else:
            mujoco.mj_fullM(pair.mujoco, other, mass)
        expected = np.triu(pin.crba(pair.pinocchio, data, q))
        expected += np.triu(expected, 1).T
        np.testing.assert_allclose(mass[:7, :7], expected, atol=1e-6)
        bias = pin.nonLinearEffects(pair.pinocchio, data, q, dq)
        np.testing.assert_allclose(other.qfrc_bias[:7], bias, atol=1e-6)


def test_limits_agree(pair):
    limits, names = pair.arm.limits, pair.arm.joint_names
    assert list(pair.pinocchio.names)[1:] == list(names)
    np.testing.assert_allclose(pair.pinocchio.lowerPositionLimit, limits.lower)
    np.testing.assert_allclose(pair.pinocchio.upperPositionLimit, limits.upper)
    velocity = getattr(pair.pinocchio, "upperVelocityLimit", None)
    velocity = pair.pinocchio.velocityLimit if velocity is None else velocity
    np.testing.assert_allclose(velocity, limits.velocity)
    for i, name in enumerate(names):
        joint, motor = pair.mujoco.joint(name), pair.mujoco.actuator(name)
        np.testing.assert_allclose(joint.range, (limits.lower[i], limits.upper[i]))
        np.testing.assert_allclose(motor.ctrlrange, (-limits.torque[i], limits.torque[i]))
        np.testing.assert_allclose(motor.forcerange, (-limits.torque[i], limits.torque[i]))
        assert motor.trnid[0] == joint.id


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_stretched_arm_has_flange_at_franka_position(model):
    arm = ArmDescription("arm", model, hand=False)
    robot = pin.buildModelFromXML(arm_urdf(arm))
    data = robot.createData()
    pin.framesForwardKinematics(robot, data, np.zeros(7))
    flange = data.oMf[robot.getFrameId("arm_" + model + "_link8")]
    np.testing.assert_allclose(flange.translation, (0.088, 0.0, 0.926), atol=1e-12)
    np.testing.assert_allclose(flange.rotation, np.diag((1.0, -1.0, -1.0)), atol=1e-12)


def test_friction_is_in_simulation():
    damping, loss = np.linspace(0.1, 0.7, 7), np.linspace(0.2, 0.8, 7)
    arm = ArmDescription("arm", joint_damping=damping, joint_frictionloss=loss)
    model = build_scene([arm]).compile()
    np.testing.assert_allclose(model.dof_frictionloss[:7], loss)
    data = mujoco.MjData(model)
    data.qvel[:7] = 1.5
    mujoco.mj_forward(model, data)
    passive = data.qfrc_passive[:7] - data.qfrc_gravcomp[:7]
    np.testing.assert_allclose(passive, -1.5 * damping, atol=1e-9)
