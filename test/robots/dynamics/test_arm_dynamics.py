# SPDX-License-Identifier: Apache-2.0
"""Dynamics of an arm against MuJoCo, finite differences and known forces."""

from __future__ import annotations

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots import ArmDescription, Tool
from multipanda_py.robots.dynamics.arm_dynamics import ArmModel
from multipanda_py.robots.franka import LIMITS
from multipanda_py.robots.inertial import NO_LOAD, Load, combined
from multipanda_py.simulation.scene_mjcf import build_scene
from multipanda_py.state import ArmState
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


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
        assert np.allclose(state.jacobian_gram, jac[:, dof] @ jac[:, dof].T, atol=1e-9)
        assert np.array_equal(state.q_dq, [*data.qpos[q_at], *data.qvel[dof]])
        assert np.allclose(state.mass_matrix, full[np.ix_(dof, dof)], atol=1e-6)
        assert np.allclose(state.coriolis, data.qfrc_bias[dof], atol=1e-6)
        assert np.allclose(state.twist_ee_in_base, jac[:, dof] @ state.dq, atol=1e-9)


def test_jacobian_is_derivative_of_pose():
    rng = np.random.default_rng(3)
    maker = StateMaker()
    (state,) = maker.random(rng)
    q, jacobian, h = state.q.copy(), state.jacobian.copy(), 1e-6
    for joint in range(7):
        step = h * np.eye(7)[joint]
        (state,) = maker.states_at([q + step])
        ahead, ahead_r = state.position_ee_in_base.copy(), state.rotation_ee_in_base.copy()
        (state,) = maker.states_at([q - step])
        slope = (ahead - state.position_ee_in_base) / (2 * h)
        angular = (ahead_r @ state.rotation_ee_in_base.T - np.eye(3)) / (2 * h)
        assert np.allclose(jacobian[:3, joint], slope, atol=1e-8)
        assert np.allclose(
            jacobian[3:, joint], [angular[2, 1], angular[0, 2], angular[1, 0]], atol=1e-6
        )


def test_wrench_estimate_reproduces_applied_wrench():
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


@pytest.mark.parametrize("tool", [None, Tool(0.4, [0.0, 0.01, 0.06], np.eye(3) * 1e-3, np.eye(4))])
def test_load_equals_tool_of_same_inertia(tool):
    """M and C dq with a load equal those of a description with the load as a tool."""
    inertia = np.array([[3e-3, 1e-4, 0.0], [1e-4, 4e-3, -2e-4], [0.0, -2e-4, 5e-3]])
    load = Load(1.3, np.array([0.03, -0.02, 0.11]), inertia)
    body = pin.Inertia(load.mass, load.com, load.inertia)
    if tool is not None:
        body += pin.Inertia(tool.mass, tool.com_in_flange, tool.inertia)
    carrying = Tool(body.mass, body.lever, body.inertia, np.eye(4))
    model = ArmModel(ArmDescription("arm", tool=tool))
    equal = ArmModel(ArmDescription("arm", tool=carrying))
    bare = ArmModel(ArmDescription("arm", tool=tool))
    model.set_load(Load(5.0, np.ones(3), np.eye(3)))  # replaced by the next load
    model.set_load(load)
    rng = np.random.default_rng(7)
    states = _states(3)
    for _ in range(20):
        q, dq = rng.uniform(-1.0, 1.0, (2, 7))
        for state, each in zip(states, (model, equal, bare)):
            each.attach(state)
            state.q[:], state.dq[:] = q, dq
            each.update(state)
        loaded, tooled, without = states
        assert np.allclose(loaded.mass_matrix, tooled.mass_matrix, rtol=0.0, atol=1e-9)
        assert np.allclose(loaded.coriolis, tooled.coriolis, rtol=0.0, atol=1e-9)
        assert np.abs(loaded.mass_matrix - without.mass_matrix).max() > 0.05
        assert np.abs(loaded.coriolis - without.coriolis).max() > 1e-3
    model.set_load(NO_LOAD)
    model.update(states[0])
    assert np.allclose(states[0].mass_matrix, states[2].mass_matrix, rtol=0.0, atol=1e-15)


def _states(count):
    record = np.zeros(1, record_dtype(count, 0, 0))["arms"]
    return [
        ArmState(f"arm{i}", LIMITS["fr3"], record[0, i : i + 1].reshape(())) for i in range(count)
    ]


def test_combined_loads_agree_with_pinocchio():
    rng = np.random.default_rng(8)
    for _ in range(10):
        parts, body = [], pin.Inertia.Zero()
        for mass in rng.uniform(0.1, 2.0, 3):
            root = rng.normal(size=(3, 3))
            part = Load(mass, rng.normal(size=3), root @ root.T)
            parts.append(part)
            body += pin.Inertia(part.mass, part.com, part.inertia)
        total = combined([*parts, NO_LOAD])
        assert np.isclose(total.mass, body.mass)
        assert np.allclose(total.com, body.lever)
        assert np.allclose(total.inertia, body.inertia)
    assert combined([NO_LOAD, NO_LOAD]).mass == 0.0
