# SPDX-License-Identifier: Apache-2.0
"""Friction compensation against its closed form, and a slow joint that follows."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from long_form import every_nth

from multipanda_py.context import Context
from multipanda_py.controllets.features.friction import Friction, FrictionParams
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.targets import JointTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

PANDA = (  # of Gaz et al., RA-L 2019
    (0.54615, 0.87224, 0.64068, 1.2794, 0.83904, 0.30301, 0.56489),
    (5.1181, 9.0657, 10.136, 5.5903, 8.3469, 17.133, 10.336),
    (0.039533, 0.025882, -0.04607, 0.036194, 0.026226, -0.021047, 0.0035526),
)


def added(params, maker, dq, drive=None, push=0.0):
    """Return added torques; by default the controllet requests large motion."""
    states = maker.states_at(np.zeros((len(dq), 7)), dq)
    feature = Friction(maker.context, params)
    before = [1e3 * np.sign(v) if drive is None else np.array(drive) for v in dq]
    for state in states:
        state.tau_ext[:] = push
    tau = [torque.copy() for torque in before]
    feature.add(states, JointTarget(len(dq)), tau, PERIOD)
    return [after - torque for after, torque in zip(tau, before)]


def expected(dq, phi_1, phi_2, phi_3, viscous, fraction):
    def one(v, a, b, c, d):
        step = a / (1 + math.exp(-b * (v + c))) - a / (1 + math.exp(-b * c))
        return fraction * (step + d * v)

    return [one(*values) for values in zip(dq, phi_1, phi_2, phi_3, viscous)]


@pytest.mark.parametrize("model", ["identified", "custom"])
def test_torque_matches_closed_form(model):
    rng, maker = np.random.default_rng(1), StateMaker(2)
    for _ in range(20):
        phi = (rng.uniform(0, 2, 7), rng.uniform(1, 20, 7), rng.uniform(-0.1, 0.1, 7))
        viscous, fraction = rng.uniform(0, 1, 7), rng.uniform(0, 0.95)
        params = FrictionParams(model, fraction, *phi, viscous)
        dq = rng.normal(size=(2, 7))
        for mine, tau in zip(dq, added(params, maker, dq)):
            chosen = PANDA if model == "identified" else phi
            assert np.allclose(tau, expected(mine, *chosen, viscous, fraction), atol=1e-11)


def test_torque_is_zero_at_rest_and_below_coulomb_step():
    maker = StateMaker()
    assert np.abs(added(FrictionParams(), maker, [np.zeros(7)])[0]).max() < 1e-15
    for speed in (-5.0, 5.0):
        tau = added(FrictionParams(scale=0.95), maker, [np.full(7, speed)])[0]
        assert (np.sign(tau) == np.sign(speed)).all()
        assert (np.abs(tau) < PANDA[0]).all()


def test_published_torque_of_joint_1_at_0_1_rad_per_s():
    tau = added(FrictionParams(scale=0.95), StateMaker(), [np.full(7, 0.1)])[0]
    assert tau[0] == pytest.approx(
        0.95
        * 0.54615
        * (1 / (1 + math.exp(-5.1181 * 0.139533)) - 1 / (1 + math.exp(-5.1181 * 0.039533)))
    )


def test_torque_is_bounded_by_drive_and_never_opposes_it():
    rng, maker = np.random.default_rng(4), StateMaker()
    params = FrictionParams(scale=0.8, dead_zone=np.full(7, 0.3))
    full = np.array(expected(np.full(7, 0.4), *PANDA, np.zeros(7), 0.8))
    for _ in range(50):
        drive, push = rng.normal(size=7) * 0.2, rng.normal(size=7) * 0.5
        tau = added(params, maker, [np.full(7, 0.4)], drive, push)[0]
        requested = drive + np.sign(push) * np.maximum(np.abs(push) - 0.3, 0.0)
        cor = maker.states[0].coriolis
        requested = np.minimum(requested, requested - cor)
        assert np.allclose(tau, np.minimum(full, 4.0 * np.maximum(requested, 0.0)), atol=1e-9)


FRICTION = [0.3, 0.3, 0.3, 0.3, 0.15, 0.15, 0.1]


def friction_cell(make_cell, law, times, stiffness=None, **arm):
    """Return an arm with Coulomb friction, and a compensation of ``times`` as much."""
    declared = {"model": "custom", "scale": 0.9, "phi_1": [2 * times * f for f in FRICTION],
            "phi_2": [30.0] * 7, "phi_3": [0.0] * 7}  # fmt: skip
    params = {"stiffness": stiffness} if stiffness else {}
    params |= {"friction": declared} if times else {}
    features = ["coriolis", "friction"] if times else ["coriolis"]
    laws = {"law": {"type": law, "features": features, "params": params}}
    return make_cell({"arm": {"joint_friction": FRICTION, **arm}}, laws, active=["arm/law"])


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.robustness
def test_doubled_friction_compensation_drove_floating_arm_into_limit(make_cell, episodes):
    """After a push, with correct or excessive friction, the arm comes to rest and stays there."""
    late = {"perturbation": {"state_delay": 0.005, "torque_lag": 0.002}}
    noise = {"noise": {"q": 1e-5, "dq": 2e-3, "tau": 0.1}}
    for number in range(episodes(3, 60)):
        rng = np.random.default_rng(number)
        arm = [{}, late, noise][number % 3]
        cell = friction_cell(make_cell, "gravity_compensation", [2.0, 2.0, 3.0][number % 3], **arm)
        data = cell.simulation.data
        cell.step(20)
        push = rng.uniform(-1, 1, 7) * [3, 3, 3, 3, 0.5, 0.5, 0.3]
        data.qfrc_applied[:7] = push
        cell.step(200)
        assert np.abs(cell.state("arm").dq).max() > 0.3
        data.qfrc_applied[:] = 0.0
        cell.step(4000)
        q = data.qpos[:7].copy()
        cell.step(500)
        assert np.abs(data.qpos[:7] - q).max() < 1e-3
        assert cell.events() == []
        cell.close()


@pytest.mark.slow
@pytest.mark.sim
@pytest.mark.parametrize("times", every_nth(2, [1.0, 2.0]))
def test_tracking_improves_even_with_excessive_compensation(make_cell, times):
    def error(times):
        soft = [100.0] * 4 + [50.0] * 2 + [25.0]
        cell = friction_cell(make_cell, "joint_impedance", times, soft)
        start, errors = cell.state("arm").q, []
        for t in np.arange(0.0, 4.0, 0.02):
            goal = start + 0.075 * (1.0 - np.cos(math.pi / 2 * t))
            rate = np.full(7, 0.075 * math.pi / 2 * math.sin(math.pi / 2 * t))
            cell.set_target("arm", q=goal, dq=rate)
            cell.step(20)
            errors.append(cell.state("arm").q - goal)
        return np.sqrt(np.mean(np.square(errors)))

    assert error(times) < 0.6 * error(0.0)


def test_joint_with_friction_follows_slow_push_only_with_compensation(make_cell):
    """A viscous joint of 2 Nm s/rad under a constant torque accelerates as if it had 0.2."""

    def speed(features):
        arms = {"left": {"joint_damping": [2.0] * 7}}
        laws = {"joint": {"type": "joint_impedance", "arms": ["left"], "features": features,
                          "params": {"stiffness": [0.0] * 7}}}  # fmt: skip
        if "friction" in features:
            laws["joint"]["params"]["friction"] = {
                "model": "custom", "phi_1": [0.0] * 7, "viscous": [2.0] * 7, "scale": 0.9,
            }  # fmt: skip
        cell = make_cell(arms=arms, controllets=laws, active=["joint"])
        backend = cell.loop.backends[0]
        dof = int(backend.model.joint("left_fr3_joint7").dofadr[0])
        backend.data.qfrc_applied[dof] = 0.7
        cell.step(1500)
        return cell.state("left").dq[6]

    assert speed([]) == pytest.approx(0.35, rel=0.1)
    # 0.7 Nm, 0.2 of it beyond the dead zone; the compensation adds nine times that
    assert speed(["friction"]) == pytest.approx((0.7 + 1.8) / 2.0, rel=0.02)


def test_viscous_friction_of_identified_robot_is_compensated():
    """The identified values contain Coulomb friction only."""
    robot = dataclasses.replace(MODELS["fr3"], damping=np.linspace(0.1, 0.7, 7))
    states = StateMaker().states_at(np.zeros((1, 7)), [np.full(7, 0.3)])
    found = []
    for model in ("fr3", robot):
        context = Context(PERIOD, (ArmDescription("arm", model),))
        tau = [np.full(7, 1e3)]
        Friction(context, FrictionParams(scale=0.5)).add(states, JointTarget(1), tau, PERIOD)
        found.append(tau[0])
    np.testing.assert_allclose(found[1] - found[0], 0.5 * 0.3 * robot.damping, atol=1e-11)
