# SPDX-License-Identifier: Apache-2.0
"""Coupled controllets: formation, shared loads, object stiffness, internal force."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pinocchio as pin
import pytest
from dense_impedance import impedance
from models import OTHERS

from multipanda_py.context import Context
from multipanda_py.controllets.coupled_impedance import (
    UPDATE_CYCLES,
    CoupledImpedance,
    CoupledImpedanceParams,
)
from multipanda_py.exceptions import ConfigurationError, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.targets import ObjectTarget
from multipanda_py.testing import PERIOD, StateMaker, simple_cell

pytestmark = pytest.mark.inline

SHARED = 84.0
GAINS = np.array([1000.0, 1000, 1000, 40, 40, 40])
PAIR = {"pair": {"type": "coupled_impedance", "arms": ["left", "right"]}}


def skew(v):
    return np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("rotated", [False, True])
@pytest.mark.parametrize(
    ("earlier", "other"), [(0, "fr3"), (5, "fr3"), *((5, other) for other in OTHERS)]
)
def test_coupled_impedance_matches_equation(n, rotated, earlier, other):
    """Directly after activation and later, when every damper has been updated."""
    rng = np.random.default_rng(n)
    models = ("fr3", other, "fr3")[:n]
    maker = StateMaker(n, models)
    bases = [Pose.from_rpy(rng.normal(size=3), rng.normal(size=3) if rotated else [0, 0, 0])
             for _ in range(n)]  # fmt: skip
    arms = [
        ArmDescription(f"arm{i}", model, np.array(b.position), np.array(b.rotation))
        for i, (b, model) in enumerate(zip(bases, models))
    ]
    params = CoupledImpedanceParams(
        stiffness=rng.uniform(0.1, 0.9, 6) * GAINS,
        relative_stiffness=rng.uniform(0.1, 0.9, 6) * GAINS,
        damping_ratio=0.8, internal_force_time=0.0, error_clip=np.full(6, 10.0),
    )  # fmt: skip
    law, target = (
        CoupledImpedance(Context.from_arms(PERIOD, arms), params),
        ObjectTarget(n, n_joints=maker.joints),
    )
    states = maker.states_at(
        [arm.robot.ready + rng.normal(size=arm.n_joints) * 0.1 for arm in arms]
    )
    law.on_activate(states, target)
    world0 = [bases[i] @ Pose(s.position_ee_in_base.copy(), s.rotation_ee_in_base.copy())
              for i, s in enumerate(states)]  # fmt: skip
    centre = np.mean([w.position for w in world0], axis=0)
    grasps = [(w.position - centre, w.rotation) for w in world0]
    for _ in range(earlier):
        law.update(states, target, PERIOD)
    states = maker.states_at(
        [s.q + rng.normal(size=s.n_joints) * 0.01 for s in states],
        [rng.normal(size=s.n_joints) * 0.2 for s in states],
    )
    target.position_object_in_world[:] = centre + [0.02, -0.01, 0.03]
    target.rotation_object_in_world[:] = pin.exp3(np.array([0.05, -0.02, 0.04]))
    target.internal_force[0] = 12.0
    for _ in range(2 * UPDATE_CYCLES if earlier else 1):
        law.update(states, target, PERIOD)

    rotations = [np.kron(np.eye(2), b.rotation) for b in bases]
    grippers = [bases[i] @ Pose(s.position_ee_in_base, s.rotation_ee_in_base)
             for i, s in enumerate(states)]  # fmt: skip
    first = grippers[0].rotation @ grasps[0][1].T
    mean = np.mean(
        [pin.log3(first.T @ h.rotation @ g[1].T) for h, g in zip(grippers, grasps)], axis=0
    )
    r_o = first @ pin.exp3(mean)
    p_o = np.mean([h.position - r_o @ g[0] for h, g in zip(grippers, grasps)], axis=0)
    levers = [r_o @ g[0] for g in grasps]
    a = np.vstack(
        [np.block([[np.eye(3), -skew(lever)], [np.zeros((3, 3)), np.eye(3)]]) for lever in levers]
    )
    inertias = [
        rotations[i]
        @ np.linalg.inv(s.jacobian @ np.linalg.inv(s.mass_matrix) @ s.jacobian.T)
        @ rotations[i].T
        for i, s in enumerate(states)
    ]
    inertia = block(inertias)
    inward = [-lever / np.linalg.norm(lever) for lever in levers]
    press = np.concatenate([[*(i - np.mean(inward, axis=0)), 0, 0, 0] for i in inward])
    assert np.abs(a.T @ press).max() < 1e-12
    # The weighted generalised inverse, and the same without internal forces.
    b = inertia @ a @ np.linalg.inv(a.T @ inertia @ a)
    b_n = b - np.outer(press, press) @ b / (press @ press)
    twist = np.concatenate([rotations[i] @ s.jacobian @ s.dq for i, s in enumerate(states)])
    separation = np.concatenate(
        [
            [*(p_o + lever - h.position), *pin.log3(r_o @ g[1] @ h.rotation.T)]
            for lever, g, h in zip(levers, grasps, grippers)
        ]
    )
    z = 0.8 * np.eye(6)
    k, damping = impedance(
        np.linalg.inv(b_n.T @ np.linalg.inv(inertia) @ b_n), np.diag(params.stiffness), z, SHARED
    )
    springs, dampers = zip(
        *[impedance(i, np.diag(params.relative_stiffness), z, SHARED) for i in inertias]
    )
    error = np.concatenate(
        [target.position_object_in_world - p_o, pin.log3(target.rotation_object_in_world @ r_o.T)]
    )
    wrench = k @ (error + b_n.T @ separation) - damping @ b_n.T @ twist
    internal, slip = np.eye(6 * n) - a @ b_n.T, np.eye(6 * n) - a @ b.T
    expected = (
        b_n @ wrench + internal.T @ block(springs) @ internal @ separation
        - slip.T @ block(dampers) @ slip @ twist + 12.0 * press
    )  # fmt: skip
    for i, state in enumerate(states):
        on_gripper = rotations[i].T @ expected[6 * i : 6 * i + 6]
        assert np.allclose(law.tau[i], state.jacobian.T @ on_gripper, rtol=1e-8, atol=1e-8)
    # All grippers together exert the object impedance, plus the requested internal force.
    assert np.allclose(a.T @ expected, wrench, atol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_every_damper_is_updated_and_no_cycle_updates_two(n):
    maker = StateMaker(n)
    law = CoupledImpedance(maker.context, CoupledImpedanceParams())
    states, target, done = (
        maker.states_at([maker.context.arms[0].robot.ready] * n),
        ObjectTarget(n),
        [],
    )
    law.on_activate(states, target)
    law.update(states, target, PERIOD)  # all at once
    for index, damper in enumerate(law.dampers):
        damper.design = partial(lambda index, inverse: done.append(index), index)
    refresh = law.held.sharing.refresh
    law.held.sharing.refresh = lambda *given: (done.append("levers"), refresh(*given))
    cycles = max(UPDATE_CYCLES, n + 2)
    for _ in range(cycles):
        before = len(done)
        law.update(states, target, PERIOD)
        assert len(done) - before <= 1
    assert sorted(map(str, done)) == sorted(map(str, (*range(n + 1), "levers")))


def block(matrices):
    """Return the block-diagonal matrix."""
    n = len(matrices)
    out = np.zeros((6 * n, 6 * n))
    for i, matrix in enumerate(matrices):
        out[6 * i : 6 * i + 6, 6 * i : 6 * i + 6] = matrix
    return out


@pytest.mark.slow
@pytest.mark.sim
def test_pair_moves_30_cm_in_formation(make_cell):
    cell = make_cell(controllets=PAIR, active=["pair"])
    cell.step(10)
    bases = {"left": np.array([0.0, 0.3, 0.0]), "right": np.array([0.0, -0.3, 0.0])}

    def separation():
        left, right = (cell.pose(a).position + bases[a] for a in ("left", "right"))
        delta_rotation = pin.log3(cell.pose("left").rotation.T @ cell.pose("right").rotation)
        return float(np.linalg.norm(left - right)), delta_rotation

    report = cell.report("pair")
    start = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
    gap, delta_rotation = separation()
    worst = 0.0
    for k in range(400):
        fraction = 0.5 - 0.5 * np.cos(np.pi * k / 400)
        goal = start + fraction * np.array([0.1, 0.28, -0.05])
        cell.set_object_target("pair", Pose(goal, np.eye(3)))
        cell.step(10)
        now, rotated = separation()
        worst = max(worst, abs(now - gap), cell.report("pair")["relative error [m]"])
        assert np.linalg.norm(rotated - delta_rotation) < 0.02
    assert worst < 1e-3
    cell.step(1500)
    moved = np.mean([cell.pose(a).position + bases[a] for a in bases], axis=0) - start
    assert np.allclose(moved, [0.1, 0.28, -0.05], atol=1e-3)


@pytest.mark.sim
def test_push_on_one_gripper_is_shared_by_both(make_cell):
    cell = make_cell(controllets=PAIR, active=["pair"])
    cell.step(10)
    before = {arm: cell.pose(arm).position for arm in cell.arms}
    sim = cell.simulation
    body = sim.model.body("left_fr3_hand").id
    sim.data.xfrc_applied[body][:3] = [0.0, 0.0, 20.0]
    cell.step(3000)
    moved = {arm: (cell.pose(arm).position - before[arm])[2] for arm in cell.arms}
    # One rigid object: it yields to the force, and rotates under its moment at 0.3 m.
    given, rotated = 20.0 / 600.0, 0.3 * np.sin(20.0 * 0.3 / 100.0)
    assert moved["left"] == pytest.approx(given + rotated, rel=0.03)
    assert moved["right"] == pytest.approx(given - rotated, rel=0.03)


@pytest.mark.slow
@pytest.mark.sim
def test_object_rotates_about_its_own_centre(make_cell):
    cell = make_cell(controllets=PAIR, active=["pair"])
    cell.step(10)
    report = cell.report("pair")
    start = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
    for k in range(100):
        cell.set_object_target("pair", Pose.from_rpy(start, [0.0, 0.0, 0.25 * k / 99]))
        cell.step(20)
    cell.step(1500)
    gap = cell.pose("left").position + [0, 0.3, 0] - cell.pose("right").position - [0, -0.3, 0]
    assert np.arctan2(-gap[0], gap[1]) == pytest.approx(0.25, abs=5e-3)
    report = cell.report("pair")
    assert np.allclose([report[f"object_{axis} [m]"] for axis in "xyz"], start, atol=2e-3)


@pytest.mark.sim
def test_damper_update_order_persisted_over_activations(make_cell):
    found = []
    for earlier in (20, 21, 22):
        cell = make_cell(controllets=PAIR, active=["pair"])
        cell.step(10)
        (pair,) = [one for one in cell.loop.instances if one.spec.name == "pair"]
        for _ in range(earlier):
            pair.update()
        pair.activate()
        start = cell.records()[0]
        cell.step(20)
        found.append(cell.records(start)[1]["arms"]["tau"].copy())
        cell.close()
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_pair_refuses_single_arm():
    with pytest.raises(ConfigurationError, match=r"pair.arms:.*\b1\b.*\b2\b"):
        simple_cell(controllets={"pair": {"type": "coupled_impedance"}})


@pytest.mark.sim
def test_invalid_object_targets_are_refused(make_cell):
    cell = make_cell(
        controllets={**PAIR, "cart": {"type": "cartesian_impedance"}}, active=["pair"]
    )
    cell.step(5)
    with pytest.raises(TargetRejected, match=r"gate.position"):
        cell.set_object_target("pair", Pose(np.array([2.0, 0.0, 0.5]), np.eye(3)))
    with pytest.raises(TargetRejected, match="internal_force"):
        cell.set_object_target("pair", internal_force=-1.0)
    with pytest.raises(TargetRejected, match="not active"):
        cell.set_object_target("left/cart", internal_force=1.0)
    with pytest.raises(TargetRejected, match=r"\bobject, internal_force, joint\b.*\bpose\b"):
        cell.set_target("left", cell.pose("left"))
    assert cell.rejected["pair target"] == 2


@pytest.mark.sim
@pytest.mark.parametrize("law", ["coupled_impedance", "coupled_force_impedance"])
def test_internal_force_beyond_spring_capacity_was_accepted_without_notice(make_cell, law):
    """At 0.6 m along y, 100 N/m across hold 30 N but not 31; y stiffness is irrelevant."""
    params = {"relative_stiffness": [100.0, 2000.0, 150.0, 60.0, 60.0, 60.0]}
    laws = {"law": {"type": law, "arms": ["left", "right"], "params": params}}
    cell = make_cell(controllets=laws, active=["law"])
    cell.step(20)
    width = abs(cell.pose("left").position[1] - cell.pose("right").position[1] + 0.6)
    cell.set_object_target("law", internal_force=0.98 * 50.0 * width)
    cell.step(20)
    assert cell.events() == []
    cell.set_object_target("law", internal_force=1.03 * 50.0 * width)
    cell.step(20)
    (event,) = cell.events()
    for words in (f"force of {1.03 * 50.0 * width:.1f} N", "of 103 N/m", "provides 100",
                  f"below {50.0 * width:.1f} N"):  # fmt: skip
        assert words in str(event)
    cell.step(50)
    assert cell.events() == []  # reported once
    cell.set_parameters("law", {"relative_stiffness": [1500.0] * 3 + [60.0] * 3})
    cell.set_object_target("law", internal_force=20.0)
    cell.step(20)
    assert cell.events() == []


@pytest.mark.sim
@pytest.mark.parametrize(("tank", "n"), [({}, 0), ({"tank_max": 0.0, "tank_power": 0.0}, 1)])
def test_internal_force_without_tank_energy_was_withheld_without_notice(make_cell, tank, n):
    law = {"type": "coupled_force_impedance", "arms": ["left", "right"], "params": tank}
    cell = make_cell(controllets={"law": law}, active=["law"])
    cell.set_object_target("law", internal_force=20.0)
    cell.step(550)
    reported = [str(event) for event in cell.events()]
    assert len(reported) == n
    assert all(re.search(r"left and right: .*\b0\.00 J", text) for text in reported)


def test_internal_force_beyond_joint_torque_pressed_sideways():
    """Beyond 0.9 of a joint's torque all grippers press with less, along the same line."""
    rng, maker, bounded = np.random.default_rng(8), StateMaker(2), 0
    params = CoupledImpedanceParams(internal_force_time=0.0)
    law, target = CoupledImpedance(maker.context, params), ObjectTarget(2)
    for _ in range(12):
        states = maker.random(rng, margin=0.3)
        law.on_activate(states, target)
        target.internal_force[0] = 100.0
        for _ in range(5):  # one per update, and one more
            law.update(states, target, PERIOD)
        grippers = [s.position_ee_in_base + [0, 0.6 * i, 0] for i, s in enumerate(states)]
        inward = (grippers[1] - grippers[0]) / np.linalg.norm(grippers[1] - grippers[0])
        torque_per_newton = [
            s.jacobian[:3].T @ direction for s, direction in zip(states, (inward, -inward))
        ]
        limit = 0.9 * states[0].limits.torque
        hardest = max((np.abs(torque) / limit).max() for torque in torque_per_newton)
        maximum = min(100.0, 1.0 / hardest)
        for tau, torque in zip(law.tau, torque_per_newton):
            assert tau == pytest.approx(maximum * torque, abs=1e-6)
        received = [text for text in law.context.notices if "torque limits" in text]
        assert len(received) == (maximum < 100.0)
        assert all(f" {maximum:.1f} of 100.0 N " in text for text in received)
        law.context.notices.clear()
        bounded += maximum < 100.0
    assert 2 < bounded < 12
