# SPDX-License-Identifier: Apache-2.0
"""Simulated world: measured forces, compensated gravity, one shared scene."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from world import world

from multipanda_py.robots.franka import FR3_LIMITS

pytestmark = [pytest.mark.sim, pytest.mark.inline]


def push(cell, body, force, torque=(0.0, 0.0, 0.0)):
    """Apply a wrench at the centre of mass of a body, in world axes."""
    model, data = world(cell)
    data.xfrc_applied[model.body(body).id] = [*force, *torque]


@pytest.mark.parametrize("seed", range(8))
def test_force_on_gripper_is_estimated_in_any_configuration_and_base(make_cell, seed):
    rng = np.random.default_rng(seed)
    q = rng.uniform(0.7 * FR3_LIMITS.lower + 0.3 * FR3_LIMITS.upper,
                    0.3 * FR3_LIMITS.lower + 0.7 * FR3_LIMITS.upper)  # fmt: skip
    rpy = rng.uniform(-3.0, 3.0, 3).tolist()
    position = [*rng.uniform(-2, 2, 2), 3.0]
    cell = make_cell(
        arms={"arm": {"position": position, "rpy": rpy, "q_start": q.tolist()},
              "other": {"position": [position[0] + 3.0, position[1], 3.0]}}
    )  # fmt: skip
    cell.step(10)
    force = rng.normal(size=3)
    force *= 20.0 / np.linalg.norm(force)
    push(cell, "arm_fr3_hand", force)
    cell.step(2)
    state = cell.state("arm")
    model, data = world(cell)
    base = data.xmat[model.body("arm_fr3_link0").id].reshape(3, 3)
    lever = data.xipos[model.body("arm_fr3_hand").id] - data.site("arm_fr3_hand_tcp").xpos
    expected = np.concatenate([base.T @ force, base.T @ np.cross(lever, force)])
    assert np.allclose(state.wrench_ext_in_base, expected, atol=0.01 * 20.0)
    assert np.linalg.norm(state.wrench_ext_in_base[:3] - expected[:3]) < 0.01 * 20.0
    assert np.allclose(cell.state("other").tau_ext, 0.0, atol=1e-6)


def test_contact_force_is_estimated(make_cell):
    """The estimated torque of a 0.5 kg plate on the arm equals that of its contacts."""
    q = [0.0, -0.785, 0.0, -2.356, 0.0, 1.571 + np.pi / 2 - 1.571, 0.785]
    cell = make_cell(
        arms={"arm": {"q_start": q}},
        objects={"plate": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.55, 0.0, 0.9],
                           "mass": 0.5}},
    )  # fmt: skip
    cell.step(1)
    model, data = world(cell)
    start = data.joint("plate_joint").qpos
    top = max(data.geom_xpos[g][2] for g in range(model.ngeom) if model.geom_contype[g])
    start[:3] = [*data.body("arm_fr3_link5").xpos[:2], top + 0.3]
    cell.wait(lambda: bool(np.abs(cell.state("arm").tau_ext).max() > 0.2), 2.0, "contact")
    g = model.geom("plate_geom").id
    force = np.zeros(6)
    total = np.zeros(3)
    for c in range(data.ncon):
        contact = data.contact[c]
        if g in (contact.geom1, contact.geom2):
            mujoco.mj_contactForce(model, data, c, force)
            total += contact.frame.reshape(3, 3).T @ force[:3] * (1 if contact.geom2 == g else -1)
    jac = np.zeros((3, model.nv))
    expected = np.zeros(model.nv)
    for c in range(data.ncon):
        contact = data.contact[c]
        if g not in (contact.geom1, contact.geom2):
            continue
        mujoco.mj_contactForce(model, data, c, force)
        body = model.geom_bodyid[contact.geom1 if contact.geom2 == g else contact.geom2]
        mujoco.mj_jac(model, data, jac, None, contact.pos, body)
        sign = -1 if contact.geom2 == g else 1
        expected += jac.T @ (contact.frame.reshape(3, 3).T @ force[:3]) * sign
    cell.loop.backends[0].read((0,))
    state = cell.loop.arms[0].state
    assert np.linalg.norm(total) > 0.1
    assert np.allclose(state.tau_ext, expected[:7], atol=0.05 * np.abs(expected[:7]).max())


def test_zero_torque_floats_with_compensated_gravity(make_cell):
    cell = make_cell(
        controllets={"free": {"type": "misbehaving"}}, active=["left/free", "right/free"]
    )
    cell.step(1000)
    for arm in cell.arms:
        assert np.allclose(cell.state(arm).tau, 0.0)
        assert np.abs(cell.state(arm).dq).max() < 1e-6


def test_measured_joint_torque_includes_gravity(make_cell):
    cell = make_cell()
    cell.step(200)
    model, data = world(cell)
    state = cell.state("left")
    model.body_gravcomp[:] = 0.0
    mujoco.mj_forward(model, data)
    dofs = [int(model.joint(f"left_fr3_joint{i}").dofadr[0]) for i in range(1, 8)]
    assert np.allclose(state.tau_J, data.qfrc_bias[dofs] + state.tau, atol=1e-6)
    assert np.abs(state.tau_J).max() > 5.0


def test_static_stiffness_equals_parameter(make_cell):
    cell = make_cell(active=["left/cartesian_impedance_controller"])
    cell.set_parameters(
        "left/cartesian_impedance_controller",
        {"stiffness": [500.0, 800.0, 300.0, 40.0, 40.0, 40.0], "nullspace.stiffness": [5.0] * 7},
    )
    before = cell.pose("left")
    model, data = world(cell)
    site = data.site("left_fr3_hand_tcp")
    force = np.array([6.0, -8.0, 5.0])
    body = model.body("left_fr3_hand").id
    for _ in range(4000):
        lever = site.xpos - data.xipos[body]
        data.xfrc_applied[body] = [*force, *np.cross(lever, force)]
        cell.step(1)
    deflection = cell.pose("left").position - before.position
    assert np.allclose(deflection, force / [500.0, 800.0, 300.0], rtol=0.01)


def test_arms_of_one_cell_share_a_world(make_cell):
    cell = make_cell(
        arms={"left": {"position": [0.0, 0.12, 0.0]}, "right": {"position": [0.0, -0.12, 0.0]}},
        # The arms must touch, so the default collision avoidance is off.
        controllets={"cart": {"type": "cartesian_impedance", "features": ["nullspace"]}},
        active=["left/cart", "right/cart"],
    )
    for _ in range(60):
        for arm, sign in (("left", -1.0), ("right", 1.0)):
            pose = cell.pose(arm)
            cell.set_target(arm, type(pose)(pose.position + [0.0, 0.1 * sign, 0.0], pose.rotation))
        cell.step(50)
    left, right = cell.state("left"), cell.state("right")
    assert np.linalg.norm(left.wrench_ext_in_base[:3]) > 5.0
    assert left.wrench_ext_in_base[1] > 0 > right.wrench_ext_in_base[1]


def test_movable_objects_fall_and_are_reported(make_cell):
    cell = make_cell(
        objects={
            "ball": {"shape": "sphere", "size": [0.05], "position": [1.5, 0, 0.5], "mass": 0.2},
            "shelf": {"shape": "box", "size": [0.1, 0.1, 0.01], "position": [-1.0, 0.0, 0.5]},
        }
    )
    cell.step(100)
    fallen = cell.objects()
    assert set(fallen) == {"ball"}
    assert fallen["ball"].position[2] == pytest.approx(0.5 - 0.5 * 9.81 * 0.1**2, abs=2e-3)
