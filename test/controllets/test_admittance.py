# SPDX-License-Identifier: Apache-2.0
"""Admittance control: composition, stability region, physics in MuJoCo."""

from __future__ import annotations

import re

import numpy as np
import pytest
from configurations import READY
from contact_rig import ContactRig
from long_form import every_nth
from pushed_arm import PushedArm

from multipanda_py.control.force.virtual_mass import VirtualBody
from multipanda_py.control.impedance.limit_scaling import WRENCH_SCALE
from multipanda_py.controllets.admittance import Admittance, AdmittanceParams
from multipanda_py.controllets.cartesian_impedance import (
    CartesianImpedance,
    CartesianImpedanceParams,
)
from multipanda_py.pose import Pose
from multipanda_py.targets import CartesianImpedanceTarget, CartesianTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

CONTACTS = np.geomspace(10, 1e7, 61)


def rodrigues(v):
    angle = np.linalg.norm(v)
    k = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + np.sin(angle) / angle * k + (1 - np.cos(angle)) / angle**2 * k @ k


def test_torque_is_impedance_at_displaced_target():
    """Per arm: the virtual body under its wrench, then the inner controllet, used separately."""
    rng = np.random.default_rng(4)
    maker = StateMaker(2)
    params = AdmittanceParams(tare_time=0.0)
    law, target = Admittance(maker.context, params), CartesianTarget(2)
    clip = np.repeat([60.0 / 1000.0, 16.0 / 50.0], 3)  # the maximum force and torque
    inner = CartesianImpedance(
        maker.context,
        CartesianImpedanceParams(stiffness=params.inner_stiffness, error_clip=clip),
    )
    displaced = CartesianImpedanceTarget(2)
    states = maker.states_at([READY, READY + 0.2])
    law.on_activate(states, target)
    inner.on_activate(states, displaced)
    bodies = []
    for state in states:
        state.tau_ext[:] = state.jacobian.T @ (rng.normal(size=6) * [20, 20, 20, 1, 1, 1])
        body = VirtualBody(PERIOD)
        body.set_gains(
            np.repeat([4.0, 0.2], 3), np.repeat([100.0, 6.0], 3), np.repeat([200, 10.0], 3)
        )
        body.set_bounds((0.3, 1.0), (0.3, 1.0))
        body.set_filter(0.01, (1.0, 0.2))
        body.reset(0.0)
        bodies.append(body)
    states = maker.states_at([READY, READY + 0.2], list(rng.uniform(-0.1, 0.1, (2, 7))))
    seeds = [(s.position_ee_in_base.copy(), s.rotation_ee_in_base.copy()) for s in states]
    for _ in range(400):
        law.update(states, target, PERIOD)
        for body, state in zip(bodies, states):
            body.step(state.wrench_ext_in_base)
    for arm, (body, (p, r)) in enumerate(zip(bodies, seeds)):
        assert np.linalg.norm(body.translation) > 5e-3
        assert np.linalg.norm(body.rotation) > 5e-3
        displaced.position_ee_in_base[arm][:] = p + body.translation
        displaced.rotation_ee_in_base[arm][:] = rodrigues(body.rotation) @ r
    inner.update(states, displaced, PERIOD)
    for arm in range(2):
        assert np.allclose(law.tau[arm], inner.tau[arm], atol=1e-9)


def growth(mass, damping, stiffness, inner, inertia, time=0.0, delay=0.0, contacts=CONTACTS):
    """Return the largest real part of the poles in contact, over contact stiffnesses."""
    inner_damping = 2 * np.sqrt(inertia * inner)
    worst = -np.inf
    for contact in contacts:
        arm = [inertia, inner_damping, inner + contact]
        lags = np.polymul([time, 1.0] if time else [1.0], [delay, 1.0] if delay else [1.0])
        open_loop = np.polymul(np.polymul(arm, [mass, damping, stiffness]), lags)
        worst = max(worst, np.roots(np.polyadd(open_loop, [contact * inner])).real.max())
    return worst


def test_documented_condition_is_sufficient_for_any_contact():
    rng = np.random.default_rng(0)
    for _ in range(150):
        inertia, mass = 10 ** rng.uniform(-1, 2), 10 ** rng.uniform(-1, 1.5)
        inner, stiffness = 10 ** rng.uniform(1, 3.7), 10 ** rng.uniform(-1, 3.5)
        half = 0.25 * np.sqrt(inertia * inner)
        damping = half + np.sqrt(half**2 + inner * mass)  # D (D - sqrt(L Ki) / 2) = Ki M
        assert growth(mass, 1.001 * damping, stiffness, inner, inertia) < 1e-6


def test_defaults_are_stable_in_contact_and_less_damping_is_not():
    p = AdmittanceParams()
    lags = {"time": p.wrench_time, "delay": PERIOD}
    for inertia in np.geomspace(1.0, 30.0, 8):
        gains = p.mass[0], p.damping[0], p.stiffness[0], p.inner_stiffness[0], inertia
        assert growth(*gains, **lags) < 0.0
    for inertia in np.geomspace(0.02, 1.5, 8):
        gains = p.inertia[0], p.damping[3], p.stiffness[3], p.inner_stiffness[3], inertia
        assert growth(*gains, **lags) < 0.0
    assert growth(p.mass[0], 10.0, p.stiffness[0], p.inner_stiffness[0], 5.0) > 1.0


@pytest.mark.slow
@pytest.mark.sim
def test_static_displacement_under_force(make_cell):
    """Two springs in series: the virtual one, and that of the inner controllet."""
    arm = PushedArm(make_cell, "admittance", force_deadband=0.0)
    force = np.array([6.0, -8.0, 5.0])
    arm.push(0.2)
    arm.push(5.0, force=force)
    assert np.allclose(arm.moved(), force / 200.0 + force / 1000.0, rtol=0.01)
    expected = np.linalg.norm(force) / 200.0
    assert arm.report()["displacement [m]"] == pytest.approx(expected, rel=0.01)
    arm.push(5.0)
    assert np.abs(arm.moved()).max() < 3e-4


@pytest.mark.sim
def test_deadband_is_subtracted_from_force(make_cell):
    arm = PushedArm(make_cell, "admittance")
    arm.push(0.2)
    arm.push(5.0, force=(0, 6.0, 0))
    assert arm.report()["displacement [m]"] == pytest.approx(5.0 / 200.0, rel=0.01)


@pytest.mark.sim
def test_pure_torque_rotates_about_tool_point(make_cell):
    arm = PushedArm(make_cell, "admittance", torque_deadband=0.0)
    torque = np.array([0.0, 0.0, 1.5])
    arm.push(0.2)
    worst = 0.0
    for _ in range(40):
        arm.push(0.1, torque=torque)
        worst = max(worst, float(np.linalg.norm(arm.moved())))
    rotated_by = arm.cell.pose("arm").distance(arm.start)[1]
    assert rotated_by == pytest.approx(1.5 / 10.0 + 1.5 / 50.0, rel=0.02)
    assert worst < 5e-4


@pytest.mark.sim
def test_no_drift_without_contact(make_cell):
    arm = PushedArm(make_cell, "admittance")
    arm.cell.step(3000)
    assert np.abs(arm.moved()).max() < 1e-6
    assert arm.report()["displacement [m]"] == 0.0


@pytest.mark.sim
def test_strong_push_stops_at_bounds_and_returns(make_cell):
    arm = PushedArm(make_cell, "admittance", max_displacement=0.04, max_linear_speed=0.1)
    arm.push(0.2)
    arm.push(2.0, force=(0, 25.0, 0))
    assert arm.report()["displacement [m]"] == pytest.approx(0.04)
    assert arm.moved()[1] == pytest.approx(0.04 + 25.0 / 1000.0, rel=0.02)
    pushed = arm.moved()[1]
    arm.push(0.15)
    assert arm.moved()[1] < pushed - 5e-3
    arm.push(4.0)
    assert np.abs(arm.moved()).max() < 1e-3
    assert arm.cell.events() == []


def floor():
    return {"floor": {"shape": "box", "size": [0.3, 0.3, 0.02], "position": [0.4, 0.0, 0.42]}}


def press(arm, depth):
    """Move the target below the floor; return vertical forces and speeds after settling."""
    for z in np.linspace(0.0, depth, 30):
        arm.cell.set_target("arm", Pose(arm.start.position - [0, 0, z], arm.start.rotation))
        arm.cell.step(30)
    arm.cell.step(1500)
    start, _ = arm.cell.records()
    arm.cell.step(1000)
    states = arm.cell.records(start)[1]["arms"]
    return states["wrench_ext_in_base"][:, 0, 2], states["twist_ee_in_base"][:, 0, 2]


@pytest.mark.sim
def test_admittance_presses_on_hard_floor_without_bouncing(make_cell):
    arm = PushedArm(make_cell, "admittance", floor())
    arm.cell.step(200)
    force, speed = press(arm, 0.06)
    assert np.abs(speed).max() < 1e-4
    below = arm.cell.pose("arm").position[2] - (arm.start.position[2] - 0.06)
    # F = Ki (below - displacement) = K displacement + deadband
    assert force == pytest.approx((below + 1.0 / 200.0) / (1 / 200.0 + 1 / 1000.0), rel=0.01)


@pytest.mark.sim
def test_insufficient_virtual_damping_bounces_as_stability_region_predicts(make_cell):
    arm = PushedArm(make_cell, "admittance", floor(), damping=[10.0] * 3 + [1.0] * 3)
    arm.cell.step(200)
    force, speed = press(arm, 0.06)
    assert force.min() < 0.01 < 30.0 < force.max()
    assert np.abs(speed).max() > 0.05


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("tare_time", every_nth(2, [0.1, 0.0]))
def test_arm_activated_under_push_drifted_when_push_ended(make_cell, tare_time):
    """The push was tared to zero, so its end counted as an opposite push: 45 mm."""
    arm = PushedArm(make_cell, "admittance", tare_time=tare_time)
    arm.cell.switch(deactivate=["arm/law"])
    arm.push(2.0, force=(0, 0, -10.0))
    loaded = arm.cell.pose("arm")
    result = arm.cell.switch(["arm/law"])
    assert re.search(r"\barm .*\b10\.0 N", result.message)
    arm.push(2.0, force=(0, 0, -10.0))
    assert arm.cell.pose("arm").distance(loaded)[0] < 1e-3
    assert arm.report()["displacement [m]"] < 1e-3
    arm.push(3.0)
    assert arm.cell.pose("arm").distance(loaded)[0] < 2e-3
    arm.push(4.0, force=(0, 0, -10.0))  # the arm yields to a new push
    assert arm.report()["displacement [m]"] == pytest.approx(9.0 / 200.0, rel=0.01)


@pytest.mark.sim
def test_further_push_adds_to_tared_push(make_cell):
    arm = PushedArm(make_cell, "admittance", force_deadband=0.0)
    arm.cell.switch(deactivate=["arm/law"])
    arm.push(2.0, force=(0, 0, -10.0))
    arm.cell.switch(["arm/law"])
    arm.push(0.2, force=(0, 0, -10.0))
    before = arm.cell.pose("arm").position
    arm.push(4.0, force=(0, 6.0, -10.0))
    moved = arm.cell.pose("arm").position - before
    assert np.allclose(moved, [0, 6.0 / 200.0 + 6.0 / 1000.0, 0], atol=1.5e-3)


def driven(law, speed, **params):
    """Return forces on a wall of 1e4 N/m with a target 0.3 m inside it, and the fault."""
    bench = ContactRig(1e4, 0.1, params=params, law=law)
    bench.step(200)
    pose, forces = bench.cell.pose("arm"), []
    for z in np.minimum(0.4, np.arange(0.0, 0.4 + 1.0 * speed, 0.01 * speed)):
        bench.cell.set_target("arm", Pose(pose.position - [0.0, 0.0, z], pose.rotation))
        forces.append(bench.step(10)[0])
        if fault := bench.cell.state("arm").fault:
            break
    bench.close()
    return np.concatenate(forces), fault


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("speed", every_nth(2, [0.25, 0.5]))
def test_admittance_pressed_wall_with_full_inner_spring_force(speed):
    """151 N and a velocity fault at 0.5 m/s: three times the force of the stiffer impedance."""
    forces, fault = driven("admittance", speed)
    plain, _ = driven("cartesian_impedance", speed)
    assert fault == ""
    assert forces.max() < 1.1 * plain.max()
    assert forces[-100:].max() < 60.0


@pytest.mark.sim
def test_max_force_parameter_raises_contact_force(make_cell):
    """The inner of two springs in series is clipped: at 0.2 m depth, 20 N are the maximum."""
    gains = {"stiffness": [1000.0] * 3 + [10.0] * 3, "damping": [300.0] * 3 + [6.0] * 3}
    arm = PushedArm(make_cell, "admittance", floor(), max_force=20.0, **gains)
    arm.cell.step(200)
    force, _ = press(arm, 0.1)
    assert force == pytest.approx(20.0, rel=0.02)
    arm.cell.set_parameters("arm/law", {"max_force": 30.0})
    arm.cell.step(1500)
    assert arm.cell.state("arm").wrench_ext_in_base[2] == pytest.approx(30.0, rel=0.02)


def test_tare_removes_possible_bias_and_no_more():
    """A constant wrench from the start, of 3 N and of 12 N: K x = F less the tared part."""
    for force, estimated in ((3.0, 0.0), (12.0, 7.0)):
        body = VirtualBody(PERIOD)
        body.set_gains(np.full(6, 4.0), np.full(6, 100.0), np.full(6, 200.0))
        body.set_bounds((0.3, 1.0), (0.3, 1.0))
        body.set_filter(0.01, (0.0, 0.0))
        body.reset(0.1, (5.0, 1.0))
        for _ in range(6000):
            body.step(np.array([0.0, force, 0.0, 0.0, 0.0, 0.0]))
        assert np.allclose(body.translation, [0.0, estimated / 200.0, 0.0], atol=1e-6)


def test_inner_gains_change_live_without_torque_step():
    maker = StateMaker()
    law, target = Admittance(maker.context, AdmittanceParams()), CartesianTarget(1)
    states = maker.states_at([READY])
    law.on_activate(states, target)
    target.position_ee_in_base[0][0] += 0.01
    law.update(states, target, PERIOD)
    before = law.tau[0].copy()
    law.params = AdmittanceParams(inner_stiffness=2.0 * AdmittanceParams().inner_stiffness)
    law.on_parameters()
    steps = []
    for _ in range(300):
        last = law.tau[0].copy()
        law.update(states, target, PERIOD)
        steps.append(np.abs(law.tau[0] - last).max())
    assert np.allclose(law.tau[0], 2.0 * before, atol=1e-9)
    assert max(steps) < 0.03 * np.abs(before).max()


def test_joint_torque_limits_reduced_force_without_report():
    """Force and torque bounds hold in any configuration; joint torque limits come first."""
    maker, rng, observed = StateMaker(), np.random.default_rng(3), set()
    law = Admittance(maker.context, AdmittanceParams(max_force=120.0, tare_time=0.0))
    target, scale_index = Admittance.Target(1), law.report_names.index(WRENCH_SCALE)
    for _ in range(20):
        (state,) = maker.random(rng, margin=0.3)
        law.on_activate([state], target)
        offset = rng.normal(size=3)
        target.position_ee_in_base[0][:] += offset
        law.update([state], target, PERIOD)
        pull = law.inner.springs[0].stiffness[:, :3] @ np.clip(offset, -0.12, 0.12)
        requested, allowed = state.jacobian.T @ pull, 0.9 * state.limits.torque
        scale = min(1.0, 1.0 / np.abs(requested / allowed).max())
        assert law.tau[0] == pytest.approx(scale * requested, abs=1e-6)
        assert law.report[scale_index] == pytest.approx(scale)
        observed.add(scale < 1.0)
    assert len(observed) == 2
