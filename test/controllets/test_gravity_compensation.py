# SPDX-License-Identifier: Apache-2.0
"""Free floating and its holds: equation, physics in MuJoCo, live changes."""

from __future__ import annotations

import numpy as np
import pytest
from configurations import READY
from dense_impedance import root
from pushed_arm import PushedArm

from multipanda_py.controllets.gravity_compensation import (
    GravityCompensation,
    GravityCompensationParams,
)
from multipanda_py.targets import HeldPose
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

HOLDS = ("none", "position", "orientation", "plane")


def started(speed=0.0, **params):
    maker = StateMaker()
    states = maker.states_at([READY], [np.full(7, speed)])
    law = GravityCompensation(maker.context, GravityCompensationParams(**params))
    target = HeldPose(1)
    law.on_activate(states, target)
    return maker, law, target, states


def dense(state, stiffness, ratio, e):
    """Return spring and modal damper on the held coordinates, by congruence of the inertia."""
    w, s = np.linalg.eigh(stiffness)
    s, k = s[:, w > 1e-9], np.diag(w[w > 1e-9])
    inertia = np.linalg.inv(
        s.T @ state.jacobian @ np.linalg.inv(state.mass_matrix) @ state.jacobian.T @ s
    )
    half = root(inertia)
    inverse = np.linalg.inv(half)
    d = s @ (2 * ratio * half @ root(inverse @ k @ inverse) @ half) @ s.T
    return state.jacobian.T @ (stiffness @ e - d @ state.jacobian @ state.dq)


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("keep", [False, True])
def test_torque_matches_equation(hold, keep):
    rng = np.random.default_rng(3)
    normal = np.array([0.3, -0.5, 0.8])
    for _ in range(10):
        maker, law, target, states = started(
            hold=hold, keep_orientation=keep, normal=normal, translational_stiffness=700.0,
            rotational_stiffness=30.0, damping_ratio=0.8, joint_damping=1.5,
        )  # fmt: skip
        here = states[0].position_ee_in_base.copy()
        rotator = states[0].rotation_ee_in_base.copy()
        speeds = rng.uniform(-0.5, 0.5, 7)
        (state,) = maker.states_at([READY + rng.uniform(-0.05, 0.05, 7)], [speeds])
        law.update([state], target, PERIOD)
        n = normal / np.linalg.norm(normal)
        p = {"position": np.eye(3), "plane": np.outer(n, n)}.get(hold, np.zeros((3, 3)))
        holds_orientation = hold == "orientation" or (keep and hold in ("position", "plane"))
        stiffness = np.zeros((6, 6))
        stiffness[:3, :3], stiffness[3:, 3:] = 700.0 * p, 30.0 * np.eye(3) * holds_orientation
        r = rotator @ state.rotation_ee_in_base.T
        skew = np.array([r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]]) / 2
        size = np.linalg.norm(skew)
        e = np.concatenate([here - state.position_ee_in_base, skew / size * np.arcsin(size)])
        expected = -1.5 * speeds
        if stiffness.any():
            expected = expected + dense(state, stiffness, 0.8, e)
        assert np.allclose(law.tau[0], expected, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("hold", HOLDS)
def test_activation_at_rest_adds_no_torque(hold):
    rng = np.random.default_rng(5)
    maker, law, target, _ = started(hold=hold, keep_orientation=True)
    for _ in range(20):
        states = maker.random(rng)
        law.on_activate(states, target)
        law.update(states, target, PERIOD)
        assert np.abs(law.tau[0]).max() < 1e-9


def test_reference_has_no_channel():
    assert HeldPose.channels == ()
    assert hasattr(HeldPose(1), "nullspace_configuration")


def change(law, **params):
    law.params = GravityCompensationParams(**params)
    law.on_parameters()


def test_hold_enabled_later_keeps_configuration_measured_then():
    maker, law, target, states = started(hold="none")
    law.update(states, target, PERIOD)
    elsewhere = READY + 0.3
    for _ in range(3):
        law.update(maker.states_at([elsewhere]), target, PERIOD)
    change(law, hold="position", keep_orientation=True)
    for _ in range(300):
        law.update(states, target, PERIOD)
        assert np.abs(law.tau[0]).max() < 1e-9


@pytest.mark.parametrize("before", HOLDS)
@pytest.mark.parametrize("after", HOLDS)
def test_holds_change_without_torque_step(before, after):
    maker, law, target, _ = started(hold=before, gain_time=0.1)
    moved = maker.states_at([READY + 0.02], [np.full(7, 0.05)])
    torques = []
    for cycle in range(200):
        if cycle == 20:
            change(law, hold=after, gain_time=0.1)
        law.update(moved, target, PERIOD)
        torques.append(law.tau[0].copy())
    largest = np.abs(torques).max()
    steps = np.abs(np.diff(torques, axis=0)).max(axis=1)
    assert steps[19:].max() <= 0.03 * largest
    assert np.isfinite(torques).all()


def test_plane_without_normal_exerts_no_torque():
    maker, law, target, _ = started(hold="plane", normal=np.zeros(3))
    law.update(maker.states_at([READY + 0.02], [np.full(7, 0.1)]), target, PERIOD)
    assert np.abs(law.tau[0]).max() == 0.0


def pushed(make_cell, **params):
    return PushedArm(make_cell, "gravity_compensation", cycles=5, **params)


@pytest.mark.sim
def test_arm_floats_and_stays_after_push(make_cell):
    arm = pushed(make_cell, joint_damping=3.0)
    arm.cell.step(2000)
    assert np.abs(arm.moved()).max() < 1e-6
    arm.push(0.4, force=(0, 6.0, 0))
    arm.push(4.0)
    assert arm.moved()[1] > 0.03
    rest = arm.cell.state("arm")
    assert np.abs(rest.dq).max() < 1e-2
    assert np.abs(rest.tau).max() < 2e-2
    assert arm.cell.events() == []


@pytest.mark.slow
@pytest.mark.sim
def test_held_position_is_spring_with_free_rotation(make_cell):
    arm = pushed(make_cell, hold="position", joint_damping=0.5)
    force = np.array([8.0, -6.0, 10.0])
    arm.push(5.0, force=force)
    assert np.allclose(arm.moved(), force / 800.0, rtol=0.01, atol=1e-5)
    arm.push(3.0)
    arm.push(0.5, torque=(0, 0, 0.5))
    assert arm.turned() > 0.2
    assert np.linalg.norm(arm.moved()) < 2e-3


@pytest.mark.slow
@pytest.mark.sim
def test_held_orientation_allows_free_translation(make_cell):
    arm = pushed(make_cell, hold="orientation", joint_damping=0.5)
    torque = np.array([0.4, -0.3, 0.2])
    arm.push(0.5, force=(0, 6.0, 0))
    assert arm.moved()[1] > 0.03
    assert arm.turned() < 0.05
    arm.push(4.0)
    assert arm.turned() < 1e-3
    arm.push(4.0, torque=torque)
    rotator = arm.cell.pose("arm").rotation @ arm.start.rotation.T
    skew = (
        np.array(
            [
                rotator[2, 1] - rotator[1, 2],
                rotator[0, 2] - rotator[2, 0],
                rotator[1, 0] - rotator[0, 1],
            ]
        )
        / 2
    )
    assert np.allclose(skew, torque / 40.0, rtol=0.02, atol=2e-4)


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("keep", [False, True])
def test_plane_holds_only_along_its_normal(make_cell, keep):
    normal = np.array([1.0, 0.0, 1.0]) / np.sqrt(2)
    arm = pushed(
        make_cell, hold="plane", normal=[1.0, 0.0, 1.0], keep_orientation=keep, joint_damping=0.5
    )
    arm.push(0.5, force=(0, 6.0, 0))
    assert arm.moved()[1] > 0.03
    assert abs(normal @ arm.moved()) < 5e-3
    assert (arm.turned() < 0.05) == keep
    arm.push(4.0)
    assert abs(normal @ arm.moved()) < 5e-4
    here = arm.moved()
    arm.push(0.3, force=12.0 * normal)
    arm.push(0.7, force=12.0 * normal)
    assert normal @ (arm.moved() - here) == pytest.approx(12.0 / 800.0, rel=0.03)


@pytest.mark.sim
def test_hold_enabled_in_motion_stops_arm(make_cell):
    arm = pushed(make_cell, hold="none")
    arm.push(0.4, force=(0, 6.0, 0))
    fast = np.abs(arm.cell.state("arm").dq).max()
    assert fast > 0.1
    start, _ = arm.cell.records()
    arm.cell.set_parameters("arm/law", {"hold": "position", "keep_orientation": True})
    arm.push(0.01)
    arm.push(3.0)
    _, rows = arm.cell.records(start)
    assert np.abs(np.diff(rows["arms"]["tau"][:, 0], axis=0)).max() < 0.5
    speed = arm.cell.state("arm").twist_ee_in_base
    assert np.abs(speed).max() < 2e-2
    assert arm.cell.events() == []
