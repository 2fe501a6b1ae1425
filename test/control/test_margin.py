# SPDX-License-Identifier: Apache-2.0
"""Linearised laws against loops that are stepped, and laws whose damping is known."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.margin import Probe, linearise
from multipanda_py.testing import StateMaker

Q = np.array([0.4, 0.3, -0.5, -1.9, 0.6, 2.3, 0.2])
RATE, STOP = 60.0, 40.0


def law_with_a_stop(directions, rate=RATE):
    """A law that brakes all motions with a rate, and stops approaches along directions.

    It is told as tau(q, dq) too: a stop is what it adds so that the distance's acceleration is
    at least -STOP times its rate, of bodies that come near one another.
    """
    maker = StateMaker()
    (state,) = maker.at([Q])
    mass = state.mass.copy()
    inverse, tau = np.linalg.inv(mass), [np.zeros(7)]

    def torque(q, dq):
        found = -mass @ (rate * dq + 0.25 * rate**2 * (q - Q))
        for g in directions:
            missing = -STOP * (g @ dq) - g @ inverse @ found
            if g @ dq < 0.0 and missing > 0.0:
                found = found + g * missing / (g @ inverse @ g)
        return found

    def update():
        tau[0][:] = torque(state.q, state.dq)

    return Probe([state], maker.models, tau, lambda: None, update), torque, mass


def test_a_stop_that_acts_one_way_seemed_to_make_a_late_arm_swing():
    """Differentiated joint by joint from rest, each column was of another part of the law."""
    g = np.array([0.3, -0.5, 0.2, 0.4, -0.1, 0.3, 0.05])
    probe, torque, mass = law_with_a_stop([g], rate=5.0)
    found = linearise(probe, Q)
    assert len(found.pieces) > 1
    # By the projection of the law's damping and the stop's own rate: nothing is faster.
    assert found.bandwidth == pytest.approx(STOP, rel=1e-6)
    assert found.radius(5, 0.002, 0.8) < 1.0 + 1e-9
    # Stepped with delay and lag, whatever way it is pushed, it does come to rest.
    inverse, follow = np.linalg.inv(0.8 * mass), 1.0 - np.exp(-0.5)
    for seed in range(3):
        q, dq = Q.copy(), 0.2 * np.random.default_rng(seed).standard_normal(7)
        first, late, acting = np.abs(dq).max(), [np.zeros(7)] * 5, np.zeros(7)
        for _ in range(3000):
            late.append(torque(q, dq))
            acting = acting + follow * (late.pop(0) - acting)
            dq = dq + 1e-3 * inverse @ acting
            q = q + 1e-3 * dq
        assert np.abs(dq).max() < 0.02 * first


def test_a_law_without_one_sided_parts_is_seen_as_it_is():
    probe, _, mass = law_with_a_stop([])
    found = linearise(probe, Q)
    ((stiffness, damping),) = found.pieces
    assert np.allclose(damping, RATE * mass, atol=1e-6)
    assert np.allclose(stiffness, 0.25 * RATE**2 * mass, atol=1e-3)
    assert found.bandwidth == pytest.approx(RATE, rel=1e-6)


@pytest.mark.parametrize("rate", [150.0, 300.0])
def test_a_brake_that_is_too_fast_for_latency_is_a_swing_and_a_hill_is_none(rate):
    """On a hill the arm leaves, with latency as without; a late brake makes it swing."""
    probe, _, mass = law_with_a_stop([], rate=rate)
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
