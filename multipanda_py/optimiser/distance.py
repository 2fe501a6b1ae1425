# SPDX-License-Identifier: Apache-2.0
"""Distances of solids as constraints."""

from __future__ import annotations

from typing import Any, ClassVar

import coal
import numpy as np

from multipanda_py.optimiser.kinematics import Placement, Slices
from multipanda_py.optimiser.objective import Objective
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.segments import closest_points
from multipanda_py.optimiser.solids import PathSolid, pairs_between
from multipanda_py.state import Matrix, Vector

AHEAD = 0.1
"""Pairs farther apart than the margin and this are counted as so far, and do not push [m]."""


class Distance(Objective):
    r"""Keep two bodies apart: the margin less the distance of every pair of solids [m].

    .. math:: \phi = d_{min} - d, \qquad \dot d = n^T (v_a - v_b)

    with the velocities of the two closest points and n from the one of b to that of a; a problem
    keeps it at most zero. Capsules and balls are measured by the closest points of their axes, so
    that they still push apart when they overlap; boxes and cylinders by coal.

    Args:
        scene: With both bodies.
        first: An arm or a thing.
        second: Another one, or the same arm for distances within it.
        margin: Smallest distance [m].

    Raises:
        UnknownName: If there is no such body.
    """

    unit: ClassVar[str] = "m"

    def __init__(self, scene: Scene, first: str, second: str, margin: float = 0.01) -> None:
        known = [*scene.arms, *scene.things]
        for name in (first, second):
            scene.known("arm or thing", name, known)
        self.of, self.margin = (first, second), margin
        pairs = pairs_between(scene, first, second)
        self.pairs = sorted(pairs, key=lambda pair: any(s.shape is not None for s in pair))
        self.frames = tuple(dict.fromkeys(s.frame for pair in self.pairs for s in pair))
        # Of every pair and side: which frame, the axis' ends in it, the radius.
        place = {name: at for at, name in enumerate(self.frames)}
        self._frame = np.array([[place[s.frame] for s in pair] for pair in self.pairs], dtype=int)
        self._ends = np.array([[(s.start, s.end) for s in pair] for pair in self.pairs])
        self._radii = np.array([[s.radius for s in pair] for pair in self.pairs]).reshape(-1, 2)
        self._by_coal = [any(s.shape is not None for s in pair) for pair in self.pairs]

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        """Return that the numbers are to be at most zero."""
        n = len(self.pairs)
        return np.full(n, -np.inf), np.zeros(n)

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the margin less the distances, and the derivative of what is near."""
        s, d, n = *slices.x.shape, len(self.pairs)
        placed = [slices.frames[name] for name in self.frames]
        jacobian = np.zeros((s, n, d))
        if not n:
            return np.zeros((s, 0)), jacobian
        positions = np.stack([p.position for p in placed], 1)  # (s, f, 3)
        rotations = np.stack([p.rotation for p in placed], 1)
        sides = []
        for side in (0, 1):
            at, ends = self._frame[:, side], self._ends[:, side]  # (n,), (n, 2, 3)
            turned = np.einsum("snij,nej->snei", rotations[:, at], ends)
            sides.append(positions[:, at, None] + turned)  # (s, n, 2, 3)
        on_a, on_b = closest_points(*sides)
        away = on_a - on_b
        apart = np.sqrt((away * away).sum(-1))
        distance = apart - self._radii.sum(1)
        normal = away / np.maximum(apart, 1e-9)[..., None]
        near = distance < self.margin + AHEAD
        for number, by_coal in enumerate(self._by_coal):
            if by_coal:
                self._measure(slices, number, near[:, number], distance, normal, on_a, on_b)
        near &= distance < self.margin + AHEAD
        for number in np.flatnonzero(near.any(0)).tolist():
            rows = np.flatnonzero(near[:, number])
            n_a = normal[rows, number]
            a, b = (placed[f] for f in self._frame[number])
            jacobian[rows, number] = _rate(b, rows, on_b[rows, number], n_a) - _rate(
                a, rows, on_a[rows, number], n_a
            )
        return self.margin - np.minimum(distance, self.margin + AHEAD), jacobian

    def _measure(
        self, slices: Slices, number: int, near: Vector, distance: Matrix, normal: Matrix,
        on_a: Matrix, on_b: Matrix,
    ) -> None:  # fmt: skip
        """Have coal measure a pair in the slices where balls around its solids are near."""
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        solids = self.pairs[number]
        shapes = [_shape(solid) for solid in solids]
        for row in np.flatnonzero(near).tolist():
            poses = [_pose(slices.frames[solid.frame], row, solid) for solid in solids]
            result.clear()
            distance[row, number] = coal.distance(
                shapes[0], poses[0], shapes[1], poses[1], request, result
            )
            on_a[row, number] = result.getNearestPoint1()
            on_b[row, number] = result.getNearestPoint2()
            normal[row, number] = -result.normal  # coal's is from the first to the second


def _rate(placed: Placement, rows: np.ndarray, points: Matrix, normal: Matrix) -> Matrix:
    r"""Return how fast points of a frame move along a direction, (k, d).

    .. math:: n^T (v + \omega \times r) = n^T v + (r \times n)^T \omega
    """
    arm = points - placed.position[rows]
    both = np.concatenate([normal, np.cross(arm, normal)], 1)
    rate: Matrix = (both[:, None] @ placed.jacobian[rows])[:, 0]
    return rate


def _shape(solid: PathSolid) -> Any:
    if solid.shape is not None:
        return solid.shape
    return coal.Capsule(solid.radius, float(np.linalg.norm(solid.end - solid.start)))


def _pose(placed: Placement, row: int, solid: PathSolid) -> Any:
    """Return where coal has a solid: a capsule's axis is its z."""
    rotation, axis = placed.rotation[row], solid.end - solid.start
    centre = placed.position[row] + rotation @ (0.5 * (solid.start + solid.end))
    length = float(np.linalg.norm(axis))
    if solid.shape is None and length > 0.0:
        z = axis / length
        x = np.cross(z, np.eye(3)[np.abs(z).argmin()])
        x /= np.linalg.norm(x)
        rotation = rotation @ np.stack([x, np.cross(z, x), z], 1)
    return coal.Transform3s(rotation, centre)
