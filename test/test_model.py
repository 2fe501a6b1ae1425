# SPDX-License-Identifier: Apache-2.0
"""The arm's model against MuJoCo, finite differences and known forces."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.description import ArmDescription
from multipanda_py.description.mjcf import build_scene
from multipanda_py.testing import StateMaker


@pytest.mark.parametrize("model", ["fr3", "fer"])
def test_quantities_match_mujoco(model):
    arm = ArmDescription("arm0", model)
    mj = build_scene([arm]).compile()
    mj.opt.gravity[:] = 0.0
    data = mujoco.MjData(mj)
    rng = np.random.default_rng(2)
    maker = StateMaker(model=model)
    joints = [mj.joint(name) for name in arm.joint_names]
    q_at = [int(j.qposadr[0]) for j in joints]
    dof = [int(j.dofadr[0]) for j in joints]
    fingers = [int(mj.joint(name).qposadr[0]) for name in arm.finger_joint_names]
    site = mj.site(arm.ee_frame).id
    jac = np.zeros((6, mj.nv))
    full = np.zeros((mj.nv, mj.nv))
    for _ in range(20):
        (state,) = maker.random(rng, speed=1.0)
        data.qpos[q_at], data.qvel[dof] = state.q, state.dq
        data.qpos[fingers] = arm.finger_opening
        mujoco.mj_forward(mj, data)
        mujoco.mj_jacSite(mj, data, jac[:3], jac[3:], site)
        full[:] = 0.0
        if hasattr(data, "M"):
            mujoco.mj_fullM(mj, data, full)
        else:
            mujoco.mj_fullM(mj, full, data.qM)
        assert np.allclose(state.position_ee_in_base, data.site_xpos[site], atol=1e-9)
        assert np.allclose(state.rotation_ee_in_base.ravel(), data.site_xmat[site], atol=1e-9)
        assert np.allclose(state.jacobian, jac[:, dof], atol=1e-9)
        assert np.allclose(state.mass, full[np.ix_(dof, dof)], atol=1e-6)
        assert np.allclose(state.coriolis, data.qfrc_bias[dof], atol=1e-6)
        assert np.allclose(state.twist_ee_in_base, jac[:, dof] @ state.dq, atol=1e-9)


def test_jacobian_is_the_derivative_of_the_pose():
    rng = np.random.default_rng(3)
    maker = StateMaker()
    (state,) = maker.random(rng)
    q, jacobian, h = state.q.copy(), state.jacobian.copy(), 1e-6
    for joint in range(7):
        step = h * np.eye(7)[joint]
        (state,) = maker.at([q + step])
        ahead, ahead_r = state.position_ee_in_base.copy(), state.rotation_ee_in_base.copy()
        (state,) = maker.at([q - step])
        slope = (ahead - state.position_ee_in_base) / (2 * h)
        turn = (ahead_r @ state.rotation_ee_in_base.T - np.eye(3)) / (2 * h)
        assert np.allclose(jacobian[:3, joint], slope, atol=1e-8)
        assert np.allclose(jacobian[3:, joint], [turn[2, 1], turn[0, 2], turn[1, 0]], atol=1e-6)


def test_wrench_estimate_reads_back_what_made_the_torque():
    rng = np.random.default_rng(4)
    maker = StateMaker()
    checked = 0
    while checked < 50:
        (state,) = maker.random(rng)
        if np.linalg.svd(state.jacobian, compute_uv=False)[-1] < 0.02:
            continue
        checked += 1
        wrench = rng.normal(size=6) * [20, 20, 20, 3, 3, 3]
        state.tau_ext[:] = state.jacobian.T @ wrench
        maker.models[0].update(state)
        assert np.allclose(state.wrench_ext_in_base, wrench, rtol=1e-2, atol=1e-2)
