# SPDX-License-Identifier: Apache-2.0
"""Linearised controllets against stepped loops, and controllets with known damping."""

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
    """Return a controllet that damps all motions and stops approaches along directions.

    A stop bounds the distance's acceleration from below by -STOP times its rate, on approach.
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


def test_one_sided_stop_was_linearised_with_wrong_rates():
    """Columns of joint-wise derivatives belonged to different parts of the controllet."""
    g = np.array([[0.3, -0.5, 0.2, 0.4, -0.1, 0.3, 0.05]])
    probe, _ = law_with_stops(g, rate=5.0)
    found = linearise(probe, Q)
    assert len(found.pieces) > 1
    assert found.bandwidth == pytest.approx(STOP, rel=1e-6)
    assert found.radius(5, 0.002, 0.8) < 1.0 + 1e-9


def test_stable_coupled_arms_were_reported_as_oscillating():
    """The radius was 1.06, by separating pairs; the stepped loop comes to rest."""
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
    assert np.abs(dq).max() < 0.2 * first  # a radius of 1.06 would amplify by 4e7


def test_smooth_controllet_is_linearised_exactly():
    probe, mass = law_with_stops([])
    found = linearise(probe, Q)
    ((stiffness, damping),) = found.pieces
    assert np.allclose(damping, RATE * mass, atol=1e-6)
    assert np.allclose(stiffness, 0.25 * RATE**2 * mass, atol=1e-3)
    assert found.bandwidth == pytest.approx(RATE, rel=1e-6)


@pytest.mark.parametrize("rate", [150.0, 300.0])
def test_fast_brake_with_latency_oscillates_and_unstable_equilibrium_does_not(rate):
    """An arm leaves an unstable equilibrium with and without latency; a late brake oscillates."""
    probe, mass = law_with_stops([], rate=rate)
    # For a rate with 5 ms + 2 ms and half a cycle: phase 5.5 ms w + atan(2 ms w) is 90 degrees at
    # 214 rad/s, where the gain is 1 for a rate of 233 1/s.
    assert (linearise(probe, Q).oscillation_radius(5, 0.002, 1.0) > 1.0) == (rate > 233.0)
    hill = Probe(
        probe.states, probe.models, probe.tau, lambda: None,
        lambda: np.copyto(probe.tau[0], mass @ (25.0 * (probe.states[0].q - Q))),
    )  # fmt: skip
    found = linearise(hill, Q)
    assert found.radius(5, 0.002, 1.0) == pytest.approx(np.exp(1e-3 * 5.0), abs=5e-4)
    assert found.oscillation_radius(5, 0.002, 1.0) < 1.0
