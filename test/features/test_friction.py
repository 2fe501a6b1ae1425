# SPDX-License-Identifier: Apache-2.0
"""Friction compensation against its closed form, and a slow joint that follows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py.features.friction import PANDA, Friction, FrictionParams
from multipanda_py.targets import JointTarget
from multipanda_py.testing import PERIOD, StateMaker


def added(params, maker, dq):
    states = maker.at(np.zeros((len(dq), 7)), dq)
    feature, tau = Friction(maker.context, params), [np.zeros(7) for _ in dq]
    feature.add(states, JointTarget(len(dq)), tau, PERIOD)
    return tau


def expected(dq, phi_1, phi_2, phi_3, viscous, share):
    def one(v, a, b, c, d):
        step = a / (1 + math.exp(-b * (v + c))) - a / (1 + math.exp(-b * c))
        return share * (step + d * v)

    return [one(*values) for values in zip(dq, phi_1, phi_2, phi_3, viscous)]


@pytest.mark.parametrize("model", ["panda", "custom"])
def test_torque_is_the_closed_form(model):
    rng, maker = np.random.default_rng(1), StateMaker(2)
    for _ in range(20):
        phi = (rng.uniform(0, 2, 7), rng.uniform(1, 20, 7), rng.uniform(-0.1, 0.1, 7))
        viscous, share = rng.uniform(0, 1, 7), rng.uniform()
        params = FrictionParams(model, share, *phi, viscous)
        dq = rng.normal(size=(2, 7))
        for mine, tau in zip(dq, added(params, maker, dq)):
            chosen = PANDA if model == "panda" else phi
            assert np.allclose(tau, expected(mine, *chosen, viscous, share), atol=1e-12)


def test_nothing_at_rest_and_never_more_than_the_step():
    maker = StateMaker()
    assert np.abs(added(FrictionParams(), maker, [np.zeros(7)])[0]).max() < 1e-15
    for speed in (-5.0, 5.0):
        tau = added(FrictionParams(share=1.0), maker, [np.full(7, speed)])[0]
        assert (np.sign(tau) == np.sign(speed)).all()
        assert (np.abs(tau) < PANDA[0]).all()


def test_published_values_of_joint_one_at_a_tenth_of_a_radian_per_second():
    tau = added(FrictionParams(share=1.0), StateMaker(), [np.full(7, 0.1)])[0]
    assert tau[0] == pytest.approx(
        0.54615 * (1 / (1 + math.exp(-5.1181 * 0.139533)) - 1 / (1 + math.exp(-5.1181 * 0.039533)))
    )


def test_a_joint_with_friction_follows_a_slow_push_only_with_compensation(make_cell):
    """A viscous joint of 2 Nm s/rad under a constant torque speeds up as if it had 0.2."""

    def speed(features):
        arms = {"left": {"joint_damping": [2.0] * 7}}
        laws = {"joint": {"type": "joint_impedance", "arms": ["left"], "features": features,
                          "params": {"stiffness": [0.0] * 7}}}  # fmt: skip
        if "friction" in features:
            laws["joint"]["params"]["friction"] = {
                "model": "custom", "phi_1": [0.0] * 7, "viscous": [2.0] * 7, "share": 0.9,
            }  # fmt: skip
        cell = make_cell(arms=arms, controllets=laws, active=["joint"])
        backend = cell._runner._loop.backends[0]
        dof = int(backend.model.joint("left_fr3_joint7").dofadr[0])
        backend.data.qfrc_applied[dof] = 0.1
        cell.step(1500)
        return cell.state("left").dq[6]

    assert speed([]) == pytest.approx(0.05, rel=0.1)
    assert speed(["friction"]) > 0.25
