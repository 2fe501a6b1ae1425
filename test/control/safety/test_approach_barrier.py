# SPDX-License-Identifier: Apache-2.0
"""Integrated curve of the approach barrier, and its forces against contact conditions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from multipanda_py.control.safety.collision_forces import (
    MAX_FORCE,
    CollisionVelocityDamper,
    settle,
)
from multipanda_py.testing import StateMaker

pytestmark = pytest.mark.inline


def barrier(stop=0.015, deceleration=8.0, bandwidth=20.0):
    found = CollisionVelocityDamper()
    found.set(stop, deceleration, bandwidth)
    return found


@pytest.mark.parametrize("speed", [0.05, 0.3, 1.0, 2.5])
def test_body_stops_at_stop_distance_within_deceleration(speed):
    law, step = barrier(), 1e-4
    distance, v, hardest = law.reach(speed), speed, 0.0
    for _ in range(30_000):
        minimum = law.required(distance, v, law.stop)
        hardest = max(hardest, minimum)
        v -= max(minimum, 0.0) * step
        distance -= v * step
        assert distance > law.stop - 1e-6
    assert distance == pytest.approx(law.stop, abs=1e-3)
    assert hardest < 8.0 + 1e-6


def test_barrier_needs_no_deceleration_at_reach():
    law = barrier()
    for speed in (0.0, 0.3, 1.0, 2.5):
        assert law.required(law.reach(speed), speed, law.stop) <= 1e-9


def test_slope_of_curve_is_its_derivative():
    law, h = barrier(), 1e-7
    for distance in (0.012, 0.02, 0.1, 0.5):
        above, below = (law.allowed(distance + s * h, 0.015)[0] for s in (1, -1))
        slope = law.allowed(distance, 0.015)[1]
        assert slope == pytest.approx((above - below) / (2 * h), rel=1e-5)


def test_forces_satisfy_contact_conditions_also_for_equal_pairs():
    rng, maker = np.random.default_rng(0), StateMaker()
    for _ in range(50):
        state = maker.random(rng)[0]
        inverse = np.linalg.inv(state.mass_matrix)
        normals = rng.normal(size=(3, 3)) * 0.7 + [0, 0, 1]  # feasible together
        normals /= np.linalg.norm(normals, axis=1)[:, None]
        gradients = normals @ state.jacobian[:3]
        gradients = np.vstack([gradients, gradients[:1], gradients[:1] * 1.001])
        acceleration, needs = rng.normal(size=7) * 5, rng.normal(size=5)
        needs[3:] = needs[0]
        forces = settle(needs, gradients, gradients @ inverse, acceleration)
        if forces is None:
            assert (gradients @ acceleration >= needs).all()
            continue
        assert (forces >= 0).all()
        if forces.max() < MAX_FORCE:
            after = gradients @ (acceleration + inverse @ gradients.T @ forces)
            size = max(np.abs(needs - gradients @ acceleration).max(), 1.0)
            assert (after >= needs - 0.1 * size).all()


def test_pair_that_joints_cannot_separate_gets_bounded_force():
    forces = settle([5.0], np.full((1, 7), 1e-9), np.full((1, 7), 1e-9), np.zeros(7))
    assert forces is not None
    assert 0.0 <= forces[0] <= MAX_FORCE


def test_zero_bandwidth_stopped_controllets_that_queried_allowed_speed():
    """By a division by zero near any object; a bandwidth of 0 sets no bound."""
    unbounded = barrier(bandwidth=0.0)
    assert unbounded.allowed(0.02, 0.015)[0] == math.inf
    assert unbounded.allowed(0.01, 0.015)[0] == math.inf
