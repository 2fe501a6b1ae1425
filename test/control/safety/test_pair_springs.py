# SPDX-License-Identifier: Apache-2.0
"""Repulsion of pairs against its formula, and the sum of pairs on an arm with latency."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.control.safety.collision_forces import (
    MAX_REPULSION_DAMPING_RATE,
    MAX_REPULSION_STIFFNESS,
    push_apart,
)

pytestmark = pytest.mark.inline

AT_REST = np.zeros(1)


def test_single_pair_repels_by_potential_and_damps_approach_only():
    slope, ratio, mass, depth = 1e4, 0.7, 4.0, 0.01
    coupling = np.array([[1 / mass]])
    rest = push_apart(np.array([depth]), AT_REST, coupling, slope, ratio)[0]
    assert rest == pytest.approx(slope * depth**2)
    damping = 2 * ratio * np.sqrt(2 * slope * depth * mass)
    for rate in (-0.01, 0.005):
        pushed = push_apart(np.array([depth]), np.array([rate]), coupling, slope, ratio)[0]
        assert pushed == pytest.approx(rest - damping * rate)
    assert push_apart(np.array([depth]), np.array([1.0]), coupling, slope, ratio)[0] == 0.0
    assert not push_apart(np.array([-0.01]), AT_REST, coupling, slope, ratio).any()
    assert not push_apart(np.array([depth]), AT_REST, coupling, 0.0, ratio).any()


def test_repulsion_becomes_linear_at_maximum_stiffness():
    depths = np.linspace(0.0, 0.03, 3001)
    slope, mass = 2.2e6, 0.5
    forces = [push_apart(d[None], AT_REST, np.array([[1 / mass]]), slope, 0.7)[0] for d in depths]
    stiffness = np.diff(forces) / np.diff(depths)
    assert stiffness.max() == pytest.approx(MAX_REPULSION_STIFFNESS * mass, rel=1e-3)
    assert (np.diff(stiffness) >= -1e-3 * stiffness.max()).all()
    assert forces[1] == pytest.approx(slope * depths[1] ** 2)


def test_many_stiff_pairs_stay_within_latency_limits():
    """Eigenvalues of inertia and differentiated gains, for any coupling of pairs."""
    rng, h = np.random.default_rng(2), 1e-7
    for _ in range(40):
        n = rng.integers(1, 7)
        gradients = rng.standard_normal((n, 14)) * rng.uniform(0.1, 1.0, (n, 1))
        inverse = np.diag(rng.uniform(0.1, 10.0, 14))
        coupling = gradients @ inverse @ gradients.T
        depths, slope = rng.uniform(0.002, 0.03, n), 10 ** rng.uniform(4, 7)
        ratio, rest = rng.uniform(0.3, 5.0), np.zeros(n)

        def change(depths_step, rates_step, push=push_apart, at=(depths, coupling, slope, ratio)):
            depth, *others = at
            ahead, back = (
                push(depth + sign * depths_step, sign * rates_step, *others) for sign in (1, -1)
            )
            return (ahead - back) / (2 * h)

        damping = -np.array([change(rest, h * e) for e in np.eye(n)]).T
        fastest = np.linalg.eigvals(inverse @ gradients.T @ damping @ gradients).real.max()
        assert fastest <= MAX_REPULSION_DAMPING_RATE * (1 + 1e-6)
        if n == 1:
            spring = change(h * np.ones(1), rest)[0] * coupling[0, 0]
            assert spring <= MAX_REPULSION_STIFFNESS * (1 + 1e-6)
