# SPDX-License-Identifier: Apache-2.0
"""Distance constraints of solids, and the selection of bodies that keep a distance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import coal
import numpy as np
from numpy.typing import NDArray

from multipanda_py.planning.optimiser.kinematics import Placement, Slices
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solids import Parts, PathSolid, pairs_between
from multipanda_py.planning.optimiser.term import Objective
from multipanda_py.state import Matrix, Vector


def closest_points(first: Matrix, second: Matrix) -> tuple[Matrix, Matrix]:
    r"""Return the closest points of pairs of segments.

    .. math:: \min_{0 \le s, t \le 1} |a_0 + s u - b_0 - t v|^2

    with the first ends :math:`a_0, b_0` and the vectors u, v of the two segments. Segments of zero
    length are points.

    Args:
        first: Ends of the first segment of each pair, (..., 2, 3).
        second: Ends of the second segment of each pair, (..., 2, 3).

    Returns:
        Points on the first and on the second segments, (..., 3) each.
    """
    a, b = first[..., 0, :], second[..., 0, :]
    u, v, w = first[..., 1, :] - a, second[..., 1, :] - b, a - b
    uu, vv, uv, uw, vw = _dot(u, u), _dot(v, v), _dot(u, v), _dot(u, w), _dot(v, w)
    cross = uu * vv - uv * uv
    parallel = cross <= 1e-12 * np.maximum(uu * vv, 1e-30)
    s = np.where(parallel, 0.5, (uv * vw - vv * uw) / np.where(parallel, 1.0, cross))
    s = np.clip(s, 0.0, 1.0)
    t = np.clip((uv * s + vw) / np.where(vv > 0.0, vv, 1.0), 0.0, 1.0)
    s = np.clip((uv * t - uw) / np.where(uu > 0.0, uu, 1.0), 0.0, 1.0)
    return a + s[..., None] * u, b + t[..., None] * v


def _dot(a: Matrix, b: Matrix) -> Matrix:
    # Faster than numpy.sum.
    result: Matrix = a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]
    return result


GRADIENT_DISTANCE = 0.1
"""Distance above the margin beyond which the value of a pair is constant and its gradient zero
[m]."""


class Distance(Objective):
    r"""Constraint: two bodies keep a minimum distance between all pairs of their solids [m].

    .. math:: \phi = d_{min} - d \le 0, \qquad \dot d = n^T (v_a - v_b).

    Here :math:`d_{min}` is the margin and d the distance of a pair of solids a, b. Their closest
    points have the velocities :math:`v_a, v_b`, and n is the unit vector from b to a.

    Args:
        scene: Scene with both bodies.
        first: Name of an arm or object.
        second: Name of another arm or object; the same arm for distances between its links.
        margin: Minimum distance [m].
        parts: Parts of arms: ``all``, ``arm`` without gripper, or ``hand`` with fingers.

    Raises:
        UnknownName: If there is no such body.
    """

    def __init__(
        self, scene: Scene, first: str, second: str, margin: float = 0.01, parts: Parts = "all"
    ) -> None:
        known = [*scene.arms, *scene.objects]
        for name in (first, second):
            scene.known("arm or object", name, known)
        self.of, self.margin, self.parts = (first, second), margin, parts
        pairs = pairs_between(scene, first, second, parts)
        self.pairs = sorted(pairs, key=lambda pair: any(s.shape is not None for s in pair))
        self.frames = tuple(dict.fromkeys(s.frame for pair in self.pairs for s in pair))
        # For both solids of each pair: index of the frame, ends of the axis in it, and radius.
        frame_index = {name: at for at, name in enumerate(self.frames)}
        self._frame = np.array(
            [[frame_index[s.frame] for s in pair] for pair in self.pairs], dtype=int
        )
        self._points, self._ends = _unique_axis_ends(self.pairs, self.frames)
        self._radii = np.array([[s.radius for s in pair] for pair in self.pairs]).reshape(-1, 2)
        # ``_by_coal`` has the coal shapes of pairs with a box or cylinder, by index of the pair.
        shapes = {
            id(solid): (shape_of(solid), *frame_of(solid))
            for pair in self.pairs
            if any(solid.shape is not None for solid in pair)
            for solid in pair
        }
        self._by_coal = {
            number: [shapes[id(solid)] for solid in pair]
            for number, pair in enumerate(self.pairs)
            if any(solid.shape is not None for solid in pair)
        }
        self._boxes = self._box_capsule_pairs()

    def units(self, scene: Scene) -> tuple[str, ...]:
        return ("m",) * len(self.pairs)

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        n = len(self.pairs)
        return np.full(n, -np.inf), np.zeros(n)

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the margin minus the distance of each pair, and the Jacobian of this value."""
        s, d, n = *slices.x.shape, len(self.pairs)
        placed = [slices.frames[name] for name in self.frames]
        jacobian = np.zeros((s, n, d))
        if not n:
            return np.zeros((s, 0)), jacobian
        there = [  # Ends of the axes in the world, per frame: (s, 3, number of ends).
            (p.rotation.reshape(-1, 3) @ own.T).reshape(s, 3, -1) + p.position[..., None]
            for p, own in zip(placed, self._points)
        ]
        points = np.concatenate(there, 2).transpose(0, 2, 1)
        on_a, on_b = closest_points(points[:, self._ends[:, 0]], points[:, self._ends[:, 1]])
        away = on_a - on_b
        apart = np.sqrt((away * away).sum(-1))
        distance = apart - self._radii.sum(1)
        normal = away / np.maximum(apart, 1e-9)[..., None]
        near = distance < self.margin + GRADIENT_DISTANCE
        for number, side, numbers in self._boxes:
            axes = points[:, self._ends[numbers, 1 - side]]
            near[:, numbers] &= self._capsules_near_box(placed, axes, number, side, numbers)
        for number in self._by_coal:
            rows = np.flatnonzero(near[:, number])
            distance[:, number] = self.margin + GRADIENT_DISTANCE
            self._measure_with_coal(slices, number, rows, distance, normal, on_a, on_b)
        near &= distance < self.margin + GRADIENT_DISTANCE
        for number in np.flatnonzero(near.any(0)).tolist():
            rows = np.flatnonzero(near[:, number])
            n_a = normal[rows, number]
            a, b = (placed[f] for f in self._frame[number])
            jacobian[rows, number] = _speed_jacobian(
                b, rows, on_b[rows, number], n_a
            ) - _speed_jacobian(a, rows, on_a[rows, number], n_a)
        return self.margin - np.minimum(distance, self.margin + GRADIENT_DISTANCE), jacobian

    def is_near(self, slices: Slices) -> bool:
        """Return True if any pair is ever closer than its margin plus ``GRADIENT_DISTANCE``."""
        values, _ = self.evaluate(slices)
        return bool((values > -GRADIENT_DISTANCE).any())

    def _box_capsule_pairs(self) -> list[tuple[int, int, NDArray[np.intp]]]:
        """Return for each box: index of one pair, side of the box in it (0, 1), and all pairs."""
        capsules: dict[tuple[int, int], list[int]] = {}
        for number in self._by_coal:
            for side, solid in enumerate(self.pairs[number]):
                if (
                    isinstance(solid.shape, coal.Box)
                    and self.pairs[number][1 - side].shape is None
                ):
                    capsules.setdefault((id(solid), side), []).append(number)
        return [(numbers[0], side, np.array(numbers)) for (_, side), numbers in capsules.items()]

    def _capsules_near_box(
        self,
        placed: Sequence[Placement],
        axes: Matrix,
        pair: int,
        box_side: int,
        pairs: NDArray[np.intp],
    ) -> NDArray[np.bool_]:
        """Return a mask of the k capsules that may be close to a box, (s, k)."""
        # Lower bound of the distance: |max(|R^T (m - c)| - h, 0)| - l - r, with the middle m, half
        # length l and radius r of the capsule, and the centre c, rotation R and half sides h.
        shape, rotation, centre = self._by_coal[pair][box_side]
        box = placed[self._frame[pair, box_side]]
        away = axes.mean(2) - (box.position + box.rotation @ centre)[:, None]
        outside = np.maximum(
            np.abs(away @ (box.rotation @ rotation)) - np.array(shape.halfSide), 0.0
        )
        reach = 0.5 * np.linalg.norm(axes[:, :, 1] - axes[:, :, 0], axis=-1)
        min_value = np.linalg.norm(outside, axis=-1) - reach - self._radii[pairs, 1 - box_side]
        near: NDArray[np.bool_] = min_value < self.margin + GRADIENT_DISTANCE
        return near

    def _measure_with_coal(
        self, slices: Slices, pair: int, steps: NDArray[np.intp], distance: Matrix,
        normal: Matrix, on_a: Matrix, on_b: Matrix,
    ) -> None:  # fmt: skip
        """Write distance, (s, n) [m], normal, (s, n, 3), and closest points, (s, n, 3)."""
        request, result = coal.DistanceRequest(), coal.DistanceResult()
        solids, of_coal = self.pairs[pair], self._by_coal[pair]
        for step in steps.tolist():
            placed = []
            for solid, (shape, rotation_step, centre) in zip(solids, of_coal):
                frame = slices.frames[solid.frame]
                rotation, position = frame.rotation[step], frame.position[step]
                placed += [
                    shape,
                    coal.Transform3s(rotation @ rotation_step, position + rotation @ centre),
                ]
            result.clear()
            distance[step, pair] = coal.distance(*placed, request, result)
            on_a[step, pair] = result.getNearestPoint1()
            on_b[step, pair] = result.getNearestPoint2()
            normal[step, pair] = -result.normal  # The normal of coal points from a to b.


def _unique_axis_ends(
    pairs: Sequence[tuple[PathSolid, PathSolid]], frames: Sequence[str]
) -> tuple[list[Matrix], NDArray[np.intp]]:
    """Return axis ends by frame, (k, 3), and the indices of both ends of each pair, (n, 2, 2)."""
    known: dict[str, dict[tuple[float, ...], int]] = {frame: {} for frame in frames}
    for pair in pairs:
        for solid in pair:
            own = known[solid.frame]
            for end in (solid.start, solid.end):
                own.setdefault(tuple(end.tolist()), len(own))
    first = dict(zip(frames, np.cumsum([0, *(len(own) for own in known.values())]).tolist()))
    ends = [
        [
            [first[s.frame] + known[s.frame][tuple(e.tolist())] for e in (s.start, s.end)]
            for s in pair
        ]
        for pair in pairs
    ]
    points = [np.array(list(own), dtype=np.float64).reshape(-1, 3) for own in known.values()]
    return points, np.array(ends, dtype=np.intp).reshape(-1, 2, 2)


def _speed_jacobian(
    placed: Placement, steps: np.ndarray, points: Matrix, direction: Matrix
) -> Matrix:
    """Return the Jacobian of the speed of frame points along directions, (k, d)."""
    # n^T (v + w x r) = n^T v + (r x n)^T w, with the direction n.
    arm = points - placed.position[steps]
    both = np.concatenate([direction, np.cross(arm, direction)], 1)
    rate: Matrix = (both[:, None] @ placed.jacobian[steps])[:, 0]
    return rate


def shape_of(solid: PathSolid) -> Any:
    if solid.shape is not None:
        return solid.shape
    return coal.Capsule(solid.radius, float(np.linalg.norm(solid.end - solid.start)))


def frame_of(solid: PathSolid) -> tuple[Matrix, Vector]:
    """Return rotation and position of the coal shape of a solid, in the frame of the solid.

    The shape of a capsule lies along its z axis. The rotation aligns this axis with the capsule.
    """
    axis = solid.end - solid.start
    length = float(np.linalg.norm(axis))
    centre: Vector = 0.5 * (solid.start + solid.end)
    if solid.shape is not None or length == 0.0:
        return np.eye(3), centre
    z = axis / length
    x = np.cross(z, np.eye(3)[np.abs(z).argmin()])
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], 1), centre


def clearances(
    scene: Scene, goals: Iterable[Objective] = (), margin: float = 0.01
) -> list[Distance]:
    """Return distance constraints of every arm from itself, other arms and objects.

    An arm and an object that occur in the same goal may touch, for example a tool placed on a box.

    Args:
        scene: Arms and objects.
        goals: Goals of the problem.
        margin: Minimum distance [m].

    Raises:
        UnknownName: If the frame of a goal is not in the scene.
    """
    related = {frozenset(scene.body(frame) for frame in goal.frames) for goal in goals}
    pairs = [
        *((arm, arm) for arm in scene.arms),
        *combinations(scene.arms, 2),
        *(pair for pair in product(scene.arms, scene.objects) if frozenset(pair) not in related),
    ]
    clearances = (Distance(scene, *pair, margin=margin) for pair in pairs)
    return [distance for distance in clearances if distance.pairs]
