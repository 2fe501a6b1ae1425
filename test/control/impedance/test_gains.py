# SPDX-License-Identifier: Apache-2.0
"""Gain ramps, alone and in controllets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from configurations import READY

from multipanda_py.control.impedance.gains import Ramp
from multipanda_py.controllets.cartesian_impedance import CartesianImpedance
from multipanda_py.controllets.force_impedance import ForceImpedance
from multipanda_py.controllets.operational_space import OperationalSpace
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline


def test_ramp_is_linear_and_ends_exactly():
    ramp = Ramp(np.array([0.0, 4.0]))
    ramp.go(np.array([1.0, 0.0]), 4)
    values = []
    while not ramp.arrived:
        assert ramp.step()
        values.append(ramp.value.copy())
    assert np.allclose(values, np.linspace([0.0, 4.0], [1.0, 0.0], 5)[1:], atol=1e-15)
    assert not ramp.step()
    assert (ramp.value == [1.0, 0.0]).all()


def test_new_goal_starts_at_current_value():
    ramp = Ramp(np.zeros(1))
    ramp.go(np.ones(1), 10)
    for _ in range(5):
        ramp.step()
    ramp.go(np.zeros(1), 5)
    values = [float(ramp.value[0]), *(float(ramp.value[0]) for _ in range(5) if ramp.step())]
    assert np.allclose(values, [0.5, 0.4, 0.3, 0.2, 0.1, 0.0])


def test_zero_cycles_step_and_ramp_stays_positive_semidefinite():
    rng = np.random.default_rng(0)
    a, b = (m @ m.T for m in rng.normal(size=(2, 6, 3)))
    ramp = Ramp(a)
    ramp.go(b, 7)
    while ramp.step():
        assert np.linalg.eigvalsh(ramp.value)[0] > -1e-12
    ramp.go(a)
    assert ramp.arrived
    assert (ramp.value == a).all()


SOFT = np.repeat((100.0, 5.0), 3)
LAWS = (CartesianImpedance, ForceImpedance, OperationalSpace)


def started(kind):
    """Return a controllet with an error of 1 cm; and functions to activate, stiffen, update."""
    maker = StateMaker()
    states = maker.states_at([READY], [np.zeros(7)])
    law = kind(maker.context, kind.Params(stiffness=SOFT, gain_time=0.1))
    target = kind.Target(1)

    def activate():
        law.on_activate(states, target)
        target.position_ee_in_base[0][0] += 0.01

    def torque(cycles=1):
        for _ in range(cycles):
            law.update(states, target, PERIOD)
        return law.tau[0].copy()

    def stiffen():
        law.params = replace(law.params, stiffness=3.0 * SOFT)
        law.on_parameters()

    return law, activate, stiffen, torque


@pytest.mark.parametrize("kind", LAWS)
def test_gains_ramp_while_active_and_step_at_activation(kind):
    _, activate, stiffen, torque = started(kind)
    activate()
    before = torque()
    stiffen()
    first, last, after = torque(), torque(99), torque()
    assert 0.0 < np.abs(first - before).max() < 0.05 * np.abs(last - before).max()
    assert last == pytest.approx(after, abs=1e-12)
    assert last == pytest.approx(3.0 * before, rel=1e-6)


@pytest.mark.parametrize("kind", LAWS)
def test_interrupted_ramp_left_gains_to_next_activation(kind):
    law, activate, stiffen, torque = started(kind)
    activate()
    before = torque()
    stiffen()
    torque(50)
    law.on_deactivate()
    activate()
    assert (first := torque()) == pytest.approx(3.0 * before, rel=1e-6)
    assert torque() == pytest.approx(first, abs=1e-12), "the ramp continued"
    law.on_deactivate()
    activate()
    assert torque() == pytest.approx(3.0 * before, rel=1e-6)


@pytest.mark.parametrize("kind", [CartesianImpedance, ForceImpedance])
def test_streamed_stiffness_persisted_to_next_activation(kind):
    law, activate, _, torque = started(kind)
    activate()
    before = torque()
    target = kind.Target(1)
    target.stiffness[0][:] = np.diag(4.0 * SOFT)
    law.on_target("stiffness", 0, target)
    assert torque(101) == pytest.approx(4.0 * before, rel=1e-6)
    law.on_deactivate()
    activate()
    assert torque() == pytest.approx(before, rel=1e-6)
