# SPDX-License-Identifier: Apache-2.0
"""Minimum capsules around point clouds: they contain all points and are near-optimal."""

from __future__ import annotations

import numpy as np
import pytest

from multipanda_py.robots.geometry import rotation_from_rpy
from multipanda_py.robots.importing.capsules import capsules_around, min_capsule, volume
from multipanda_py.robots.importing.source import (
    Cloud,
    box,
    capsule,
    corners,
    cylinder,
    joined,
    sphere,
)

pytestmark = pytest.mark.inline


def outside(cloud, found):
    """Return the largest distance of a cloud's balls outside a capsule [m]."""
    start, end = np.array(found.start), np.array(found.end)
    along = np.clip((cloud.points - start) @ (end - start) / ((end - start) @ (end - start)), 0, 1)
    nearest = start + along[:, None] * (end - start)
    away = np.linalg.norm(cloud.points - nearest, axis=1) + cloud.radii
    return float(away.max()) - found.radius


def random_line_volume(cloud, rng):
    """Return the volume of the minimum capsule about a random central line [m^3]."""
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    origin = cloud.points.mean(axis=0) + 0.05 * np.ptp(cloud.points, axis=0) * rng.normal(size=3)
    t = (cloud.points - origin) @ axis
    rho = np.linalg.norm(cloud.points - origin - np.outer(t, axis), axis=1)
    best = np.inf
    for r in (rho + cloud.radii).max() * np.linspace(1.0, 1.7, 71):
        c = np.sqrt(np.maximum((r - cloud.radii) ** 2 - rho**2, 0.0))
        length = max(0.0, (t - c).max() - (t + c).min())
        best = min(best, np.pi * r**2 * (length + 4.0 / 3.0 * r))
    return best


CLOUDS = {
    "points": corners(np.random.default_rng(1).normal(size=(400, 3)) * (0.1, 0.05, 0.02)),
    "many points": corners(np.random.default_rng(2).uniform(-0.1, 0.1, size=(900, 3))),
    "flat": corners(np.random.default_rng(3).uniform(-0.1, 0.1, size=(50, 3)) * (1, 1, 0)),
    "two points": corners(np.array([[0.1, 0.2, 0.3], [0.4, 0.1, 0.3]])),
    "balls": Cloud(np.random.default_rng(4).normal(size=(9, 3)), np.linspace(0.1, 0.6, 9)),
    "cylinder": cylinder(0.05, 0.3),
    "box": box(0.1, 0.05, 0.4),
    "sphere": sphere(0.07),
}


@pytest.mark.parametrize("cloud", CLOUDS.values(), ids=CLOUDS)
def test_capsule_contains_cloud_and_random_ones_are_larger(cloud):
    found = min_capsule(cloud)
    assert outside(cloud, found) < 1e-9
    assert np.linalg.norm(np.subtract(found.end, found.start)) > 0.9e-3  # the axis is defined
    rng = np.random.default_rng(0)
    assert volume(found) < 1.05 * min(random_line_volume(cloud, rng) for _ in range(100))


@pytest.mark.parametrize("seed", range(4))
def test_capsule_is_recovered_from_its_surface(seed):
    rng = np.random.default_rng(seed)
    radius, length = rng.uniform(0.02, 0.1), rng.uniform(0.05, 0.5)
    directions = rng.normal(size=(3000, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    ends = np.where(rng.random(3000) < 0.5, 0.5, -0.5)
    points = radius * directions
    points[:, 2] += ends * length
    rotation, origin = rotation_from_rpy(*rng.uniform(-3, 3, 3)), rng.uniform(-1, 1, 3)
    found = min_capsule(corners(points @ rotation.T + origin))
    assert volume(found) == pytest.approx(np.pi * radius**2 * (length + 4 / 3 * radius), rel=0.02)
    axis = np.subtract(found.end, found.start) / np.linalg.norm(
        np.subtract(found.end, found.start)
    )
    assert abs(axis @ rotation[:, 2]) > 0.999


def test_capsule_of_cube_agrees_with_closed_form():
    # axis through the centres of two faces; corners at distance a / sqrt(2) from it
    r = np.linspace(0.5**0.5, 0.75**0.5, 100_001)
    length = 1.0 - 2.0 * np.sqrt(r**2 - 0.5)
    best = (np.pi * r**2 * (length + 4.0 / 3.0 * r)).min()
    assert volume(min_capsule(box(1.0, 1.0, 1.0))) == pytest.approx(best, rel=2e-3)


def test_l_shape_gets_two_capsules_and_rod_one():
    upright = box(0.06, 0.06, 0.4)
    across = box(0.4, 0.06, 0.06).placed(np.array([0.2, 0.0, 0.2]), np.eye(3))
    angle = capsules_around([upright, across], 2)
    assert len(angle) == 2
    for part, found in zip((upright, across), angle):
        assert outside(part, found) < 1e-9
    (single,) = capsules_around([upright, across], 1)
    assert outside(joined((upright, across)), single) < 1e-9
    pieces = [cylinder(0.03, 0.1).placed(np.array([0, 0, 0.1 * i]), np.eye(3)) for i in range(9)]
    (rod,) = capsules_around(pieces, 2)
    assert volume(rod) < 1.1 * volume(min_capsule(cylinder(0.03, 0.9)))


def test_urdf_capsule_is_cylinder_and_two_spheres():
    parts = [cylinder(0.05, 0.3)]
    parts += [sphere(0.05).placed(np.array([0, 0, z]), np.eye(3)) for z in (-0.15, 0.15)]
    (found,) = capsules_around(parts, 2)
    assert volume(found) == pytest.approx(volume(min_capsule(capsule(0.05, 0.3))), rel=0.02)
    assert found.radius == pytest.approx(0.05, rel=0.02)
