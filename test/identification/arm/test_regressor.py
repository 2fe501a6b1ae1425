# SPDX-License-Identifier: Apache-2.0
"""Regressors and base parameters against independent computations of the torques."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.identification.arm.regressor import (
    ArmRegressor,
    base_parameters,
    body_of,
    congruence,
    dynamic_parameters,
    independent,
    parameters_of,
    pseudo_inertia,
)
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.inertial import Load, combined
from multipanda_py.simulation.scene_mjcf import build_scene

pytestmark = pytest.mark.inline

TILTED = (None, np.array([9.81, 0.0, 0.0]), np.array([0.0, 6.0, 7.0]))
BODY = Load(1.3, np.array([0.1, -0.2, 0.05]), np.diag([0.01, 0.012, 0.009]))


def random_states(arm, count=20, seed=0):
    rng = np.random.default_rng(seed)
    low, high = arm.limits.span
    shape = (count, arm.n_joints)
    return rng.uniform(low, high, shape), rng.normal(size=shape), rng.normal(size=shape)


@pytest.mark.parametrize("model", ["fr3", "ur5e", "iiwa14"])
def test_torques_match_mujoco_inverse_dynamics(model):
    arm = ArmDescription("arm", model, compensates_gravity=False)
    regressor = ArmRegressor(arm)
    q, dq, ddq = random_states(arm)
    n = arm.n_joints
    tau = regressor.rows(q, dq, ddq) @ regressor.prior
    tau += regressor.rows(q, dq, ddq)[..., -10:] @ regressor.carried
    world = build_scene([arm]).compile()
    world.dof_armature[:] = 0.0
    world.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(world)
    for i in range(len(q)):
        data.qpos[:n], data.qvel[:n], data.qacc[:n] = q[i], dq[i], ddq[i]
        if arm.finger_joint_names:
            data.qpos[n : n + 2] = arm.finger_opening
        mujoco.mj_inverse(world, data)
        np.testing.assert_allclose(data.qfrc_inverse[:n], tau[i], atol=1e-6)


def test_flange_rows_give_torques_of_load():
    arm = ArmDescription("arm", "fr3")
    bare, loaded = ArmRegressor(arm), ArmRegressor(arm, BODY)
    q, dq, ddq = random_states(arm)
    rows = bare.rows(q, dq, ddq)
    more = rows[..., -10:] @ (loaded.carried - bare.carried)
    np.testing.assert_allclose(bare.flange_rows(rows) @ dynamic_parameters(BODY), more, atol=1e-9)


def test_body_survives_conversion_to_parameters():
    back = body_of(dynamic_parameters(BODY))
    assert back.mass == BODY.mass
    np.testing.assert_allclose(back.com, BODY.com)
    np.testing.assert_allclose(back.inertia, BODY.inertia, atol=1e-15)
    parameters = dynamic_parameters(BODY)
    np.testing.assert_allclose(parameters_of(pseudo_inertia(parameters)), parameters)
    assert np.linalg.eigvalsh(pseudo_inertia(parameters)).min() > 0.0


def test_pseudo_inertias_add_by_parallel_axis_theorem():
    other = Load(0.7, np.array([-0.3, 0.0, 0.2]), np.diag([0.02, 0.02, 0.03]))
    both = dynamic_parameters(BODY) + dynamic_parameters(other)
    np.testing.assert_allclose(body_of(both).inertia, combined([BODY, other]).inertia)


def test_congruence_shifts_body():
    shift = np.eye(4)
    shift[:3, 3] = 0.1, 0.2, 0.3
    shifted = congruence(shift) @ dynamic_parameters(BODY)
    np.testing.assert_allclose(body_of(shifted).com, BODY.com + shift[:3, 3])
    np.testing.assert_allclose(body_of(shifted).inertia, BODY.inertia, atol=1e-12)


@pytest.mark.parametrize(
    ("model", "upright", "tilted", "static"),
    [("fr3", 43, 45, 12), ("iiwa14", 43, 45, 12), ("ur5e", 36, 38, 10)],
)
def test_number_of_base_parameters_matches_literature(model, upright, tilted, static):
    regressor = ArmRegressor(ArmDescription("arm", model))
    assert len(base_parameters(regressor)) == upright
    assert len(base_parameters(regressor, TILTED)) == tilted
    low, high = regressor.arm.limits.span
    q = np.random.default_rng(0).uniform(low, high, (60, len(low)))
    rows = regressor.rows(q, 0.0 * q, 0.0 * q)
    assert len(independent(rows.reshape(-1, len(regressor.names)), regressor.names)) == static


def test_base_parameters_reproduce_torques():
    arm = ArmDescription("arm", "fr3")
    regressor = ArmRegressor(arm)
    base = base_parameters(regressor)
    rows = regressor.rows(*random_states(arm, seed=5))
    np.testing.assert_allclose(
        rows @ regressor.prior,
        rows[..., base.columns] @ (base.transform @ regressor.prior),
        atol=1e-9,
    )
