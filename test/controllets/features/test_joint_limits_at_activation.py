# SPDX-License-Identifier: Apache-2.0
"""Joints inside a barrier at activation: moved out slowly, and held towards their limits."""

from __future__ import annotations

import numpy as np
import pytest
from long_form import every_nth, long_form

from multipanda_py.controllets.features.joint_limits import JointLimits, JointLimitsParams
from multipanda_py.robots.franka import FR3_LIMITS
from multipanda_py.targets import JointTarget
from multipanda_py.testing import PERIOD, StateMaker

pytestmark = pytest.mark.inline

LOWER, UPPER = FR3_LIMITS.lower, FR3_LIMITS.upper
READY = np.array([0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4])
SLOW = 0.1
"""Largest joint speed that a barrier may cause at rest [rad/s]."""


def near(joint, room):
    """Return a configuration with a joint this far from its upper or, if negative, lower limit."""
    q = READY.copy()
    q[1] = 0.0 if joint == 3 else -np.pi / 4
    q[joint] = UPPER[joint] - room if room > 0.0 else LOWER[joint] - room
    return q


def fastest(cell, cycles):
    count = cell.records()[0]
    cell.step(cycles)
    return float(np.abs(cell.records(count)[1]["arms"][:, 0]["dq"]).max())


def resting(make_cell, q, law, **params):
    """Return a cell whose arm rests under hold, with a controllet ready to be activated."""
    spec = {"type": law, "params": params}
    arms = {"arm": {"position": [0.0, 0.0, 1.5], "q_start": q.tolist()}}
    cell = make_cell(arms, {"law": spec}, [])
    cell.step(200)
    return cell


CASES = [(3, 0.003), (6, 0.003), (5, -0.003), (6, 0.06)]
LAWS = ["cartesian_impedance", "operational_space", "force_impedance", "joint_impedance",
        "gravity_compensation"]  # fmt: skip


@pytest.mark.parametrize("law", every_nth(3, LAWS))
def test_controllet_activated_next_to_limit_jumped_away(make_cell, law):
    """3 mrad from a limit, a barrier accelerated the joint to up to 1 rad/s."""
    first = LAWS.index(law) % 2
    for joint, room in long_form(CASES, CASES[first::2]):
        cell = resting(make_cell, near(joint, room), law)
        cell.switch(["arm/law"])
        assert fastest(cell, 2500) < SLOW, (joint, room)
        state = cell.state("arm")
        out = abs(state.q[joint] - (UPPER[joint] if room > 0 else LOWER[joint]))
        assert out > abs(room) - 1e-3
        assert np.abs(state.dq).max() < 0.03
        assert not state.fault
        cell.close()


def test_joint_beyond_limit_was_thrown_back(make_cell):
    arms = {"arm": {"position": [0.0, 0.0, 1.5], "q_start": near(6, 0.003).tolist()}}
    cell = make_cell(arms, {"law": {"type": "cartesian_impedance"}}, ["arm/law"])
    sim = cell.simulation
    sim.data.qpos[int(sim.model.joint("arm_fr3_joint7").qposadr[0])] = UPPER[6] + 0.004
    assert fastest(cell, 3000) < 1.5 * SLOW  # the controllet moves it back by 7 mrad as well
    assert cell.state("arm").q[6] < UPPER[6]


@pytest.mark.parametrize(
    "change",
    every_nth(3, [{"joint_limits.enabled": True}, {"joint_limits.range": [0.5] * 7},
     {"joint_limits.max_torque": [20.0] * 4 + [8.0] * 3}]),
)  # fmt: skip
def test_barrier_change_around_resting_arm_threw_it_out(make_cell, change):
    """Enabled, widened or strengthened while the joint is inside."""
    name = next(iter(change))
    start = {"joint_limits.max_torque": [1.0] * 7}
    if name.endswith("enabled"):
        start = {"joint_limits.enabled": False}
    elif name.endswith("range"):
        start = {"joint_limits.range": [0.05] * 7}
    cell = resting(make_cell, near(6, 0.02), "cartesian_impedance", **start)
    cell.switch(["arm/law"])
    cell.step(3000)
    before = cell.state("arm").q[6]
    cell.set_parameters("arm/law", change)
    assert fastest(cell, 3000) < SLOW
    assert cell.state("arm").q[6] < before - 5e-3


@pytest.mark.parametrize("joint", [3, 6])
def test_switch_does_not_release_joint_pushed_into_barrier(make_cell, joint):
    """Floating controllets transfer no torque, so only the barrier holds the joint."""
    floats = {"type": "gravity_compensation"}
    arms = {"arm": {"position": [0.0, 0.0, 1.5], "q_start": near(joint, 0.06).tolist()}}
    cell = make_cell(arms, {"one": floats, "other": floats}, ["arm/one"])
    sim = cell.simulation
    push = 0.6 * JointLimitsParams().max_torque[joint]
    sim.data.qfrc_applied[int(sim.model.joint(f"arm_fr3_joint{joint + 1}").dofadr[0])] = push
    cell.step(3000)
    rests = cell.state("arm").q[joint]
    assert rests < UPPER[joint]
    cell.switch(["arm/other"], ["arm/one"])
    furthest = -np.inf
    for _ in range(300):
        cell.step(10)
        furthest = max(furthest, cell.state("arm").q[joint])
    assert furthest < min(rests + 0.02, UPPER[joint] + 2e-3)
    assert cell.state("arm").q[joint] == pytest.approx(rests, abs=2e-3)
    assert not cell.state("arm").fault


def test_barrier_onset_moves_out_at_documented_speed():
    """For a stationary joint, against the documented cubic potential."""
    params, maker = JointLimitsParams(), StateMaker()
    feature = JointLimits(maker.context, params)
    joint, width, maximum = 0, params.range[0], params.max_torque[0]
    q = (LOWER + UPPER) / 2
    q[joint] = UPPER[joint] - 0.03
    states = maker.states_at([q])
    feature.on_activate(states, JointTarget(1))
    for cycle in range(1, 2000):
        tau = [np.zeros(7)]
        feature.add(states, JointTarget(1), tau, PERIOD)
        depth, begin = 1 - 0.03 / width, max(0.0, 1 - 0.03 / width - 0.05 * cycle * PERIOD / width)
        assert tau[0][joint] == pytest.approx(-maximum * (depth**2 - begin**2), abs=2e-3 * maximum)
    assert tau[0][joint] == pytest.approx(-maximum * depth**2, rel=1e-9)


@pytest.mark.parametrize("joint", [1, 3, 5, 6])
def test_inward_moving_joint_is_held_from_first_cycle(joint):
    """At least as stiffly as by the whole barrier."""
    params, maker = JointLimitsParams(), StateMaker()

    def torque(feature, inwards):
        q = (LOWER + UPPER) / 2
        q[joint] = UPPER[joint] - 0.01 + inwards
        tau = [np.zeros(7)]
        feature.add(maker.states_at([q]), JointTarget(1), tau, PERIOD)
        return -tau[0][joint]

    begun, whole = JointLimits(maker.context, params), JointLimits(maker.context, params)
    begun.on_activate(maker.states, JointTarget(1))
    assert torque(begun, 0.0) == pytest.approx(0.0, abs=2e-3 * params.max_torque[joint])
    for inwards in (0.002, 0.004, 0.008):
        grown = torque(begun, inwards)
        assert 0.99 * (torque(whole, inwards) - torque(whole, 0.0)) < grown
        assert grown <= torque(whole, inwards)
