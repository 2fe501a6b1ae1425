# SPDX-License-Identifier: Apache-2.0
"""Linearised laws against loops that are stepped, and laws whose damping is known."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py import registry, testing
from multipanda_py.control.delay_margin import RADIUS_TOLERANCE, Probe, linearise
from multipanda_py.control.safety.collision_forces import settle
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline

Q = np.array([0.4, 0.3, -0.5, -1.9, 0.6, 2.3, 0.2])
RATE, STOP = 60.0, 40.0


def law_with_stops(directions, rate=RATE):
    """A law that brakes all motions with a rate, and stops approaches along directions.

    A stop adds what makes the distance's acceleration at least -STOP times its rate, of bodies
    that come near one another.
    """
    maker = StateMaker()
    (state,) = maker.states_at([Q])
    mass = state.mass_matrix.copy()
    inverse, tau = np.linalg.inv(mass), [np.zeros(7)]

    def torque(q, dq):
        found = -mass @ (rate * dq + 0.25 * rate**2 * (q - Q))
        if not len(directions):
            return found
        responses, rates = directions @ inverse, directions @ dq
        needs = np.where(rates < 0.0, -STOP * rates, -np.inf)
        forces = settle(needs, directions, responses, inverse @ found)
        return found if forces is None else found + forces @ directions

    def update():
        tau[0][:] = torque(state.q, state.dq)

    return Probe([state], maker.models, tau, lambda: None, update), mass


def test_a_stop_that_acts_one_way_was_seen_with_rates_that_it_does_not_have():
    """Differentiated joint by joint from rest, each column was of another part of the law."""
    g = np.array([[0.3, -0.5, 0.2, 0.4, -0.1, 0.3, 0.05]])
    probe, _ = law_with_stops(g, rate=5.0)
    found = linearise(probe, Q)
    assert len(found.pieces) > 1
    assert found.bandwidth == pytest.approx(STOP, rel=1e-6)
    assert found.radius(5, 0.002, 0.8) < 1.0 + 1e-9


def test_two_arms_within_themselves_were_said_to_swing_under_a_coupled_law_that_does_not():
    """A radius of 1.06, of pairs that are let be; stepped, it comes to rest."""
    law, maker = registry.find("controllets", "coupled_impedance"), StateMaker(2)
    probe = testing.probe_of(law, maker, testing.corners(law)[0][1])
    states = maker.random(np.random.default_rng(349), margin=0.3)
    q = np.concatenate([state.q.copy() for state in states])
    found = linearise(probe, q)
    assert len(found.pieces) > 1
    for scale in (0.8, 1.2):
        assert found.radius(5, 0.002, scale) < 1.0 + RADIUS_TOLERANCE
    probe.set_state(q, np.zeros(14))
    probe.activate()
    dq, late, acting = 0.1 * np.random.default_rng(1).standard_normal(14), [np.zeros(14)] * 5, 0.0
    first, follow = np.abs(dq).max(), 1.0 - np.exp(-0.5)
    for _ in range(300):
        late.append(probe.torque(q, dq).copy())
        acting = acting + follow * (late.pop(0) - acting)
        for part, state in zip(probe.parts, states):
            dq[part] += 1e-3 * np.linalg.solve(
                0.8 * state.mass_matrix, acting[part] - state.coriolis
            )
        q = q + 1e-3 * dq
    assert np.abs(dq).max() < 0.2 * first  # 1.06 would be 4e7 times as much


def test_a_law_without_one_sided_parts_is_seen_as_it_is():
    probe, mass = law_with_stops([])
    found = linearise(probe, Q)
    ((stiffness, damping),) = found.pieces
    assert np.allclose(damping, RATE * mass, atol=1e-6)
    assert np.allclose(stiffness, 0.25 * RATE**2 * mass, atol=1e-3)
    assert found.bandwidth == pytest.approx(RATE, rel=1e-6)


@pytest.mark.parametrize("rate", [150.0, 300.0])
def test_a_brake_that_is_too_fast_for_latency_is_a_swing_and_a_hill_is_none(rate):
    """On a hill the arm leaves, with latency as without; a late brake makes it swing."""
    probe, mass = law_with_stops([], rate=rate)
    # Of a rate at 5 ms + 2 ms and half a cycle: phase 5.5 ms w + atan(2 ms w) is 90 degrees at
    # 214 rad/s, where the gain is 1 for a rate of 233 1/s.
    assert (linearise(probe, Q).swing(5, 0.002, 1.0) > 1.0) == (rate > 233.0)
    hill = Probe(
        probe.states, probe.models, probe.tau, lambda: None,
        lambda: np.copyto(probe.tau[0], mass @ (25.0 * (probe.states[0].q - Q))),
    )  # fmt: skip
    found = linearise(hill, Q)
    assert found.radius(5, 0.002, 1.0) == pytest.approx(np.exp(1e-3 * 5.0), abs=5e-4)
    assert found.swing(5, 0.002, 1.0) < 1.0
