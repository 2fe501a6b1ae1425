# SPDX-License-Identifier: Apache-2.0
"""Geometry as balls: what a capsule around it has to contain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.state import Matrix, Vector

SIDES = 32
"""Of the polygons around the rims of a cylinder, which they contain."""


def _directions(count: int) -> Matrix:
    """Return unit vectors spread evenly over the sphere by the golden angle, (count, 3)."""
    z = 1.0 - (2.0 * np.arange(count) + 1.0) / count
    angle = np.pi * (1.0 + 5.0**0.5) * np.arange(count)
    radius = np.sqrt(1.0 - z**2)
    return np.column_stack((radius * np.cos(angle), radius * np.sin(angle), z))


_DIRECTIONS = _directions(200)


@dataclass(frozen=True, eq=False)
class Cloud:
    """The convex hull of some balls: corners of a mesh or box, a sphere, rims of a cylinder.

    Attributes:
        points: Centres, (n, 3) [m].
        radii: Of the balls, (n,) [m].
    """

    points: Matrix
    radii: Vector

    def placed(self, position: Vector, rotation: Matrix) -> Cloud:
        """Return it in the frame in which it has this pose: (3,) [m] and (3, 3)."""
        return Cloud(self.points @ rotation.T + position, self.radii)

    def distance_outside(self, point: Vector) -> float:
        """Return how far a point, (3,), is outside as seen in many directions, or 0 [m]."""
        reach = (_DIRECTIONS @ self.points.T + self.radii).max(axis=1)
        return max(0.0, float((_DIRECTIONS @ point - reach).max()))

    def outermost(self) -> Cloud:
        """Return what reaches farthest in one of many directions; all of it if that is little."""
        if len(self.points) <= len(_DIRECTIONS):
            return self
        reach = _DIRECTIONS @ self.points.T + self.radii
        chosen = np.unique(reach.argmax(axis=1))
        return Cloud(self.points[chosen], self.radii[chosen])


def joined(clouds: Sequence[Cloud]) -> Cloud:
    """Return several clouds as one."""
    return Cloud(
        np.concatenate([cloud.points for cloud in clouds]),
        np.concatenate([cloud.radii for cloud in clouds]),
    )


def corners(points: Matrix) -> Cloud:
    """Return the cloud of bare points, (n, 3) [m]."""
    return Cloud(points, np.zeros(len(points)))


def box(*size: float) -> Cloud:
    """Return a box about the origin with three edges [m]."""
    signs = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    return corners(signs * np.array(size) / 2.0)


def sphere(radius: float) -> Cloud:
    """Return a sphere about the origin [m]."""
    return Cloud(np.zeros((1, 3)), np.array([radius]))


def capsule(radius: float, length: float) -> Cloud:
    """Return a capsule about the origin and the z axis; its length is without the ends [m]."""
    ends = np.array([[0.0, 0.0, -length / 2.0], [0.0, 0.0, length / 2.0]])
    return Cloud(ends, np.full(2, radius))


def cylinder(radius: float, length: float) -> Cloud:
    """Return a cylinder about the origin and the z axis [m]."""
    angle = 2.0 * np.pi * np.arange(SIDES) / SIDES
    rim = radius / np.cos(np.pi / SIDES)
    x, y = rim * np.cos(angle), rim * np.sin(angle)
    return corners(
        np.concatenate(
            [np.column_stack((x, y, np.full(SIDES, z))) for z in (-length / 2.0, length / 2.0)]
        )
    )
