# SPDX-License-Identifier: Apache-2.0
"""Bumpless transfer with a box between two grippers, for every controllet."""

from __future__ import annotations

import numpy as np
import pytest
from held_box import BASES, BOTH, LAWS, HeldBox

from multipanda_py import registry
from multipanda_py.context import BumplessTransfer
from multipanda_py.parameters import ParameterSet
from multipanda_py.pose import Pose
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.robustness
@pytest.mark.parametrize(("mass", "grasp_force", "seed"), [(0.8, 20.0, 1), (2.5, 35.0, 2)])
def test_grasped_box_was_dropped_at_switch(make_cell, episodes, mass, grasp_force, seed):
    box, rng = HeldBox(make_cell, mass), np.random.default_rng(seed)
    box.lift(grasp_force)
    before, height = box.in_hands(), box.cell.objects()["box"].position[2]
    names = [*LAWS, "hold", "failure"]
    for number in range(episodes(12, 150)):
        name = rng.choice(names)
        result = box.fail(rng) if name == "failure" else box.switch(name)
        if "pair" in name:
            assert "internal force continues with" in result.message
        box.cell.step(int(rng.choice([1, 5, 60, 250])))
        slip = np.linalg.norm(box.in_hands() - before, axis=1).max()
        assert slip < 2e-3, (number, name)
        assert abs(box.cell.objects()["box"].position[2] - height) < 5e-3, (number, name)
    for arm in BOTH:
        assert box.force(arm) == pytest.approx(grasp_force, rel=0.1)


@pytest.mark.slow
@pytest.mark.sim
def test_box_is_held_through_switches_in_motion(make_cell):
    """The box moves sideways with 0.1 m/s, on late and noisy arms."""
    late = {"state_delay": 0.002, "torque_lag": 0.002}
    noise = {"q": 1e-5, "dq": 2e-3, "tau": 0.1}
    box = HeldBox(make_cell, 1.5, perturbation=late, noise=noise)
    box.lift(30.0)
    before, start = box.in_hands(), box.cell.objects()["box"].position
    for name in ("pair", "force_pair", "other_pair"):
        report = box.cell.report(box.last)
        here = np.array([report[f"object_{axis} [m]"] for axis in "xyz"])
        here[2] += 1.5 * 9.81 / (1500.0 if box.last == "other_pair" else 600.0)
        for k in range(40):
            goal = Pose(here - [0.0, 0.001 * k, 0.0], np.eye(3))
            box.cell.set_object_target(box.last, goal)
            box.cell.step(10)
        assert np.abs(box.cell.state("left").dq).max() > 0.02
        box.switch(name)
    box.cell.step(500)
    assert np.linalg.norm(box.in_hands() - before, axis=1).max() < 2e-3
    moved = box.cell.objects()["box"].position - start
    assert moved[1] < -0.03
    assert abs(moved[2]) < 0.01


@pytest.mark.parametrize("name", ["coupled_impedance", "coupled_force_impedance"])
@pytest.mark.parametrize("stiff", [False, True])
@pytest.mark.parametrize("n", [2, 3])
def test_coupled_controllet_continues_transferred_torques(name, stiff, n):
    """Any wrenches with inward pressure; also with gains reduced by the configuration."""
    law_class = registry.find("controllets", name)
    maker, rng = StateMaker(n), np.random.default_rng(6)
    parameters = ParameterSet(law_class.Params)
    values = {spec.name: spec.default for spec in parameters.specs}
    if stiff:
        values["stiffness"] = np.array([3000.0] * 3 + [200.0] * 3)
    law = law_class(maker.context, parameters.decode(parameters.encode(values)))
    target = law_class.Target(n)
    ready = np.array([0, -0.785, 0, -2.356, 0, 1.571, 0.785])
    for _ in range(5):
        states = maker.states_at([ready + rng.normal(size=7) * 0.2 for _ in range(n)])
        grippers = np.array(
            [s.position_ee_in_base + [0, 0.6 * i, 0] for i, s in enumerate(states)]
        )
        wrenches = rng.normal(size=(n, 6)) * [4, 4, 4, 0.4, 0.4, 0.4]
        wrenches[:, :3] += 20.0 * (grippers.mean(axis=0) - grippers)
        handovers = [BumplessTransfer(w @ s.jacobian, w, w) for w, s in zip(wrenches, states)]
        for wrench, state in zip(wrenches, states):
            state.tau_ext[:] = -wrench @ state.jacobian
            state.wrench_ext_in_base[:] = -wrench
        law.on_activate(states, target)
        assert "internal force continues with" in law.on_transfer(states, target, handovers)
        law.update(states, target, 1e-3)
        assert law.measured == pytest.approx(target.internal_force[0], abs=1e-6)
        for tau, handover in zip(law.tau, handovers):
            assert np.allclose(tau, handover.tau, atol=1e-6)


@pytest.mark.slow
@pytest.mark.sim
def test_reported_internal_force_matches_contact_force(make_cell):
    """The formation springs reduce a force that is only fed forward."""
    box = HeldBox(make_cell, 0.8, first="pair")
    for grasp_force in (10.0, 25.0):
        box.cell.set_object_target("pair", internal_force=grasp_force)
        box.cell.step(1500)
        pressed = 0.5 * (box.force("left") + box.force("right"))
        assert box.cell.report("pair")["internal force [N]"] == pytest.approx(pressed, abs=0.2)
    assert pressed < 24.0


@pytest.mark.sim
def test_switch_between_free_grippers_starts_no_internal_force(make_cell):
    """An unknown load on one of them does not count as internal force."""
    payload = {"perturbation": {"payload": 1.5}}
    cell = make_cell(
        {n: {"position": list(b), **(payload if n == "left" else {})} for n, b in BASES.items()},
        LAWS, ["left/joint", "right/joint"],
    )  # fmt: skip
    cell.step(1500)
    before = {arm: cell.pose(arm) for arm in BOTH}
    for name in ("pair", "force_pair", "other_pair"):
        result = cell.switch([name], strictness="force_auto")
        assert "internal force" not in result.message
        cell.step(500)
        for arm in BOTH:
            assert cell.pose(arm).distance(before[arm])[0] < 3e-3
