# SPDX-License-Identifier: Apache-2.0
"""Gravity compensation of an arm against MuJoCo."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from multipanda_py.pose import Pose
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.robots import ArmDescription, Tool
from multipanda_py.robots.dynamics.arm_dynamics import ArmGravity, ArmModel
from multipanda_py.robots.inertial import Load
from multipanda_py.simulation.mjcf_elements import put
from multipanda_py.simulation.scene_mjcf import build_scene
from multipanda_py.state import ArmState

pytestmark = pytest.mark.inline

TOOL = Tool(1.2, np.array([0.01, -0.02, 0.06]), np.diag([2e-3, 3e-3, 1e-3]), np.eye(4))
LOAD = Load(2.0, np.array([0.03, 0.02, 0.12]), np.diag([4e-3, 5e-3, 6e-3]))


def tilted(model):
    base = Pose.from_rpy([0.3, -0.2, 0.5], [0.4, -1.1, 2.0])
    return ArmDescription(
        "arm", model, np.array(base.position), np.array(base.rotation), tool=TOOL,
        compensates_gravity=False,
    )  # fmt: skip


def state_of(arm):
    row = np.zeros(1, record_dtype(1, 0, 1, arm.n_joints))
    state = ArmState("arm", arm.limits, row["arms"][0, :1].reshape(()))
    model = ArmModel(arm)
    model.attach(state)
    return state, model


@pytest.mark.parametrize("model", ["fr3", "ur5e"])
def test_tool_and_load_on_tilted_base_agree_with_mujoco(model):
    arm = tilted(model)
    scene = build_scene([arm])
    flange = next(body for body in scene.bodies if body.name == arm.flange_frame)
    load = put(flange.add_body(), name="load", mass=LOAD.mass, pos=LOAD.com)
    put(load, ipos=np.zeros(3), inertia=np.diag(LOAD.inertia), explicitinertial=True)
    world = scene.compile()
    data = mujoco.MjData(world)
    state, _ = state_of(arm)
    gravity = ArmGravity(arm, state, 1e-3)
    gravity.set_load(LOAD)
    n, rng = arm.n_joints, np.random.default_rng(3)
    for _ in range(20):
        state.q[:] = rng.uniform(arm.limits.lower, arm.limits.upper)
        data.qpos[n:] = arm.finger_opening
        data.qpos[:n] = state.q
        mujoco.mj_forward(world, data)
        gravity.update()
        assert not np.any(data.qfrc_gravcomp)
        np.testing.assert_allclose(state.tau_gravity, data.qfrc_bias[:n], atol=1e-6)


def test_grasped_object_is_compensated_at_centre_with_ramp():
    arm = tilted("fr3")
    state, model = state_of(arm)
    state.q[:] = arm.robot.ready
    model.update(state)
    gravity = ArmGravity(arm, state, 1e-3)
    gravity.update()
    alone = state.tau_gravity.copy()
    # A load at the same point gives the expected torques independently.
    at_flange = np.array([0.02, 0.01, 0.15])
    gravity.set_load(Load(0.7, at_flange, np.zeros((3, 3))))
    gravity.update()
    expected = state.tau_gravity.copy()
    gravity.set_load(Load(0.0, np.zeros(3), np.zeros((3, 3))))
    scene = build_scene([arm]).compile()
    data = mujoco.MjData(scene)
    data.qpos[:7] = state.q
    mujoco.mj_forward(scene, data)
    flange = scene.body(arm.flange_frame).id
    centre = data.xpos[flange] + data.xmat[flange].reshape(3, 3) @ at_flange
    gravity.set_grasped_object(0.7, centre)
    gravity.update()
    assert np.abs(state.tau_gravity - alone).max() < 0.02 * np.abs(expected - alone).max()
    for _ in range(220):
        gravity.update()
    np.testing.assert_allclose(state.tau_gravity, expected, atol=1e-9)
    gravity.set_grasped_object(0.0, np.zeros(3))
    gravity.update()
    np.testing.assert_allclose(state.tau_gravity, alone, atol=1e-9)


def test_non_finite_configuration_keeps_last_gravity():
    arm = tilted("ur5e")
    state, _ = state_of(arm)
    state.q[:] = arm.robot.ready
    gravity = ArmGravity(arm, state, 1e-3)
    gravity.update()
    before = state.tau_gravity.copy()
    state.q[2] = np.nan
    gravity.update()
    np.testing.assert_array_equal(state.tau_gravity, before)
