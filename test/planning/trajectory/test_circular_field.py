# SPDX-License-Identifier: Apache-2.0
"""A point in circular fields: arrival, avoidance of obstacles and conserved energy."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.planning.trajectory.circular_field import CircularField, FieldObstacle

pytestmark = pytest.mark.inline
PERIOD = 1e-3
UP = np.array([0.0, 0.0, 1.0])


def obstacle(position, velocity=(0.0, 0.0, 0.0), radius=0.05):
    return FieldObstacle(np.array(position), np.array(velocity), radius, UP)


def test_field_force_does_no_work():
    """F . (v - v_obstacle) = 0 for all directions."""
    rng = np.random.default_rng(0)
    active = 0
    for _ in range(200):
        scene_object = obstacle(rng.normal(0.0, 0.08, 3), rng.normal(0.0, 0.1, 3))
        field = CircularField(np.zeros(3), [scene_object])
        field.velocity[:] = rng.normal(0.0, 0.2, 3)
        force = field.field_force(scene_object)
        active += bool(np.abs(force).max())
        assert abs(force @ (field.velocity - scene_object.velocity)) < 1e-12
    assert active > 50


@pytest.mark.long
def test_speed_is_constant_without_goal():
    """As of a charge in a magnetic field; fine steps, since Euler integration adds v^2 dt^2."""
    scene_object = obstacle([0.12, 0.01, 0.0])
    field = CircularField(np.zeros(3), [scene_object])
    field.velocity[:] = [0.1, 0.0, 0.0]
    deflection = 0.0
    for _ in range(200_000):
        field.velocity += 1e-5 * field.field_force(scene_object)
        field.position += 1e-5 * field.velocity
        deflection = max(deflection, abs(field.velocity[1]))
    assert deflection > 0.03
    assert np.sqrt(field.velocity @ field.velocity) == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("offset", [0.0, 0.01, -0.01])
def test_point_avoids_obstacle_on_its_path(offset):
    scene_object, goal = obstacle([0.2, offset, 0.0]), np.array([0.4, 0.0, 0.0])
    field = CircularField(np.zeros(3), [scene_object])
    nearest = np.inf
    for _ in range(8000):
        field.step(goal, PERIOD)
        nearest = min(nearest, np.linalg.norm(field.position - scene_object.position))
    assert nearest > scene_object.radius + 0.01
    np.testing.assert_allclose(field.position, goal, atol=1e-3)


def test_goal_keeps_speed_and_acceleration_limits():
    field = CircularField(np.zeros(3), [], speed=0.15)
    goal, fastest = np.array([0.3, 0.2, -0.1]), 0.0
    for _ in range(6000):
        before = field.position.copy()
        field.step(goal, PERIOD)
        fastest = max(fastest, np.linalg.norm(field.position - before) / PERIOD)
    assert 0.14 < fastest <= 0.15 + 1e-9
    np.testing.assert_allclose(field.position, goal, atol=1e-4)


def test_distant_or_passed_obstacle_has_no_field():
    far, behind = obstacle([0.5, 0.0, 0.0]), obstacle([-0.1, 0.0, 0.0])
    field = CircularField(np.zeros(3), [far, behind])
    field.velocity[:] = [0.1, 0.0, 0.0]
    assert not field.field_force(far).any()
    assert not field.field_force(behind).any()
