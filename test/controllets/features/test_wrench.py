# SPDX-License-Identifier: Apache-2.0
"""Wrench feed-forward against its closed form, and a gripper that presses with a known force."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.controllets.features.wrench import Wrench, WrenchParams
from multipanda_py.controllets.joint_impedance import JointImpedance
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline


def made(n, time_constant):
    maker = StateMaker(n)
    feature = Wrench(maker.context, WrenchParams(time_constant))
    return maker, feature, JointImpedance.Target(n, ("wrench",))


def added(feature, states, target):
    tau = [np.zeros(7) for _ in states]
    feature.add(states, target, tau, PERIOD)
    return tau


def test_unfiltered_torque_is_that_of_target_wrench():
    rng = np.random.default_rng(1)
    maker, feature, target = made(2, 0.0)
    states = maker.random(rng)
    for data in target.data["wrench"]:
        data[:] = rng.normal(size=6)
    feature.on_target("wrench", 0, target)
    for state, data, tau in zip(
        states, target.data["wrench"], added(feature, states, target), strict=True
    ):
        assert np.allclose(tau, state.jacobian.T @ data, atol=1e-12)


def test_wrench_step_starts_at_zero_and_rises_exponentially():
    rng, constant = np.random.default_rng(2), 0.02
    maker, feature, target = made(1, constant)
    states = maker.random(rng)
    feature.on_activate(states, target)
    assert not added(feature, states, target)[0].any()
    target.data["wrench"][0][:] = [1.0, -2.0, 30.0, 0.5, 0.0, -1.0]
    feature.on_target("wrench", 0, target)
    full = states[0].jacobian.T @ target.data["wrench"][0]
    for cycle in range(1, 100):
        fraction = 1 - np.exp(-cycle * PERIOD / constant)
        assert np.allclose(added(feature, states, target)[0], fraction * full, atol=1e-10)


def test_activation_resets_filter():
    rng = np.random.default_rng(3)
    maker, feature, target = made(1, 1.0)
    states = maker.random(rng)
    target.data["wrench"][0][:] = 10.0
    feature.on_target("wrench", 0, target)
    assert added(feature, states, target)[0].any()
    target.clear()
    feature.on_activate(states, target)
    assert not added(feature, states, target)[0].any()


def test_gripper_presses_on_plate_with_requested_force(make_cell):
    plate = {"plate": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.307, 0.0, 0.44]}}
    laws = {"cart": {"type": "cartesian_impedance", "features": ["coriolis", "wrench"],
                     "params": {"stiffness": [400.0, 400.0, 0.0, 20.0, 20.0, 20.0]}}}  # fmt: skip
    cell = make_cell(arms={"left": {}}, controllets=laws, active=["left/cart"], objects=plate)
    cell.step(100)
    cell.set_target("left", wrench=[0.0, 0.0, -10.0, 0.0, 0.0, 0.0])
    cell.step(4000)
    assert cell.state("left").wrench_ext_in_base[2] == pytest.approx(10.0, abs=0.2)


def test_wrench_fades_out_near_speed_limit_of_any_joint():
    maker, feature, target = made(1, 0.0)
    states = maker.random(np.random.default_rng(4))
    limits = maker.context.arms[0].limits
    target.data["wrench"][0][:] = [1.0, -2.0, 30.0, 0.5, 0.0, -1.0]
    feature.on_target("wrench", 0, target)
    full = states[0].jacobian.T @ target.data["wrench"][0]
    for joint in (0, 3, 6):
        for used, fraction in ((0.0, 1.0), (0.5, 1.0), (0.65, 0.5), (0.8, 0.0), (1.2, 0.0)):
            states[0].dq[:] = 0.1 * limits.velocity
            states[0].dq[joint] = -used * limits.velocity[joint]
            assert np.allclose(added(feature, states, target)[0], fraction * full, atol=1e-9)


@pytest.mark.sim
@pytest.mark.parametrize(
    "late", [{}, {"state_delay": 0.005, "torque_lag": 0.002, "link_mass": [0.8] * 7}]
)
def test_wrench_in_free_space_ended_at_speed_limit(make_cell, late):
    """Commands within the gate, without stiffness, caused a fault after 0.15 s."""
    cell = make_cell({"arm": {"perturbation": late}}, {"law": {"type": "cartesian_impedance"}})
    cell.switch(["arm/law"], strictness="force_auto")
    cell.step(20)
    limits, push = cell.descriptions["arm"].limits, np.array([30.0, 0, -30, 0, 3, 3])
    cell.set_target("arm", wrench=push, stiffness=[0.0] * 6)
    fastest = 0.0
    for _ in range(500):
        cell.step(1)
        fastest = max(fastest, (np.abs(cell.state("arm").dq) / limits.velocity).max())
    assert 0.5 < fastest < 0.95
    assert not cell.state("arm").fault
