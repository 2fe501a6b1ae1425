# SPDX-License-Identifier: Apache-2.0
"""Fast test whether configurations of all arms keep their distances, for sampling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.planning.optimiser.distance import Distance, frame_of, shape_of
from multipanda_py.planning.optimiser.goals import PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene, log3
from multipanda_py.planning.optimiser.solids import PathSolid
from multipanda_py.planning.optimiser.solver import Solution, Violation
from multipanda_py.planning.optimiser.term import Term
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

INTERVALS_PER_STEP = 8
"""Number of intervals between two time steps of a path. Distances are checked at their ends."""
BETWEEN_FRACTION = 0.5
"""Fraction of the required distance that suffices between the time steps of a path."""
BETWEEN_TOLERANCE = 1e-3
"""Tolerance that is also subtracted from required distances between time steps [m]."""


def too_close(terms: Iterable[Term], path: Solution, each: int) -> tuple[Violation, ...]:
    """Return the distance constraints that are violated between the time steps of a path.

    There, half of each required distance suffices. ``each`` is the number of time steps of a
    phase.
    """
    distances = [term for term in terms if isinstance(term.objective, Distance)]
    frames = dict.fromkeys(name for term in distances for name in term.objective.frames)
    if not frames:
        return ()
    placed = Kinematics(path.scene, frames).forward_kinematics(between(path))
    violations = []
    for term in distances:
        if term.is_cost or term.order or not isinstance(term.objective, Distance):
            continue
        spared = max(BETWEEN_FRACTION * term.objective.margin, 0.0) + BETWEEN_TOLERANCE
        # Configurations between the time steps of this term, from the one before its first.
        part = slice((INTERVALS_PER_STEP - 1) * term.first, (INTERVALS_PER_STEP - 1) * term.last)
        values, _ = term.objective.evaluate(placed.part(part))
        worst = (values - term.target).max(axis=1, initial=-np.inf)
        number = int(worst.argmax())
        if worst[number] > spared:
            at = term.first + number // (INTERVALS_PER_STEP - 1)
            violations.append(
                Violation(
                    f"{term.name} before it",
                    term.bodies,
                    at // each,
                    at,
                    float(worst[number]),
                    "m",
                )
            )
    return tuple(sorted(violations, key=lambda violation: -violation.amount))


def between(result: Solution) -> Matrix:
    """Return configurations between the time steps of a path, (T (k - 1), d).

    The path has T time steps of d variables, and k is ``INTERVALS_PER_STEP``.
    """
    path = np.concatenate([result.scene.start[None], result.path])
    fraction = np.arange(1, INTERVALS_PER_STEP)[:, None] / INTERVALS_PER_STEP
    displacement = path[:-1, None] + fraction * np.diff(path, axis=0)[:, None]
    slices: Matrix = displacement.reshape(-1, path.shape[1])
    return slices


DISTANCE_TOLERANCE = 5e-4
"""Tolerance of distances [m], because solutions meet their constraints only within a tolerance."""

MIN_START_DISTANCE = 1e-4
"""Minimum distance kept by bodies that are apart at the start [m]. Other programs measure slightly
different distances."""


def free_space(scene: Scene, terms: Sequence[Term]) -> FreeSpace | None:
    """Return a fast test of the distance constraints of a problem; None without constraints.

    It is also None if a movable object is not fixed to a gripper along the whole path.
    """
    every = (min(term.first for term in terms), max(term.last for term in terms))
    selected = [term for term in terms if not (term.is_cost or term.order)]
    distances = [term.objective for term in selected if isinstance(term.objective, Distance)]
    grips = {}
    for term in selected:
        one = term.objective
        if not isinstance(one, PoseGoal) or (term.first, term.last) != every:
            continue
        obj, tool = one.frames
        if obj in scene.movable and tool.endswith("/tool"):
            grips[obj] = (tool, one.pose)
    if not distances or {*scene.movable} != {*grips}:
        return None
    return FreeSpace(scene, distances, grips)


class FreeSpace:
    """Fast test whether configurations of all arms keep their distances, by the library coal.

    Attached objects move with their gripper.

    Args:
        scene: Arms and objects.
        distances: Distances to keep.
        grips: Tool frame, and pose of the object in this frame, by attached object.

    Attributes:
        n: Number of joints of all arms.

    Thread: one at a time.
    """

    def __init__(
        self, scene: Scene, distances: Sequence[Distance], grips: dict[str, tuple[str, Pose]]
    ) -> None:
        self._model = pin.Model()
        self._slices: list[slice] = []
        for arm in scene.arms:
            self._model = pin.appendModel(
                self._model, _model_with_arm_prefix(scene, arm), 0, pin.SE3.Identity()
            )
            self._slices.append(scene.columns[arm])
        # The joints have the same order as in the variables of the scene.
        self.n = self._model.nq
        self._data = self._model.createData()
        self._geometry = pin.GeometryModel()
        self._scene, self._grips = scene, grips
        known: dict[int, int] = {}
        margins: list[float] = []
        of: list[tuple[str, str]] = []
        for distance in distances:
            for pair in distance.pairs:
                for solid in pair:
                    if id(solid) not in known:
                        known[id(solid)] = self._add(solid, len(known))
                a, b = (known[id(solid)] for solid in pair)
                self._geometry.addCollisionPair(pin.CollisionPair(a, b))
                margins.append(distance.margin)
                of.append(distance.of)
        self._solids = self._geometry.createData()
        self._margins, self._of = np.array(margins), of
        self._set_required_distances(1.0, DISTANCE_TOLERANCE)

    def _add(self, solid: PathSolid, number: int) -> int:
        rotation, centre = frame_of(solid)
        placed = pin.SE3(rotation, centre)
        name, on = solid.frame, pin.SE3.Identity()
        carried = self._grips.get(name) or self._scene.frames.get(name)
        if carried is not None:
            name, grip = carried
            on = pin.SE3(grip.rotation, grip.position)
        arm, _, link = name.partition("/")
        if arm in self._scene.arms and link:
            described = self._scene.arms[arm]
            full = described.ee_frame if link == "tool" else described.prefix + link
            frame = self._model.frames[self._model.getFrameId(f"{arm}/{full}")]
            joint, on = frame.parentJoint, frame.placement * on
        else:
            obj = self._scene.objects[name]
            joint, on = 0, pin.SE3(obj.rotation, obj.position)
        geometry = pin.GeometryObject(str(number), joint, on * placed, shape_of(solid))
        return int(self._geometry.addGeometryObject(geometry))

    def _set_required_distances(self, fraction: float, tolerance: float) -> None:
        # Positive margins decrease to MIN_START_DISTANCE at most; smaller ones stay unchanged.
        # Negative margins allow an overlap, which ``fraction`` must not reduce.
        margins = fraction * self._margins - tolerance
        apart = np.maximum(margins, np.minimum(self._margins, MIN_START_DISTANCE))
        margins = np.where(self._margins > 0.0, apart, self._margins - tolerance)
        for request, margin in zip(self._solids.collisionRequests, margins.tolist()):
            request.security_margin = margin

    def sparing(self, fraction: float, tolerance: float) -> FreeSpace:
        """Return a copy that requires smaller distances.

        Args:
            fraction: Factor of positive required distances.
            tolerance: Distance that is then subtracted from all [m].
        """
        other = copy(self)
        other._solids = self._geometry.createData()
        other._set_required_distances(fraction, tolerance)
        return other

    def nearest(self, q: Vector) -> float:
        """Return the smallest distance of all pairs in a configuration of all arms, (n,) [m]."""
        pair = pin.computeDistances(self._model, self._data, self._geometry, self._solids, q)
        smallest: float = self._solids.distanceResults[pair].min_distance
        return smallest

    def too_near(self, q: Vector) -> tuple[tuple[str, str], float] | None:
        """Return two bodies that are too close, and their distance [m]; None if all are apart."""
        if self.is_free(q):
            return None
        pair = next(k for k, one in enumerate(self._solids.collisionResults) if one.isCollision())
        distance = pin.computeDistance(self._geometry, self._solids, pair).min_distance
        return self._of[pair], distance

    def with_attached_objects(self, path: Matrix) -> Matrix:
        """Return the variables of a path, including the poses of attached objects, (s, d).

        Args:
            path: Joint configurations of all arms, (s, n).
        """
        scene = self._scene
        slices = np.tile(scene.start, (len(path), 1))
        slices[:, : self.n] = path
        tools = (
            Kinematics(scene, [tool for tool, _ in self._grips.values()])
            .forward_kinematics(slices)
            .frames
        )
        for obj, (tool, grip) in self._grips.items():
            rotation = tools[tool].rotation
            own = slices[:, scene.columns[obj]]
            own[:, :3] = tools[tool].position + rotation @ grip.position
            own[:, 3:] = log3(scene.objects[obj].rotation.T @ rotation @ grip.rotation)
        return slices

    def is_free(self, q: Vector) -> bool:
        """Return True if a joint configuration of all arms, (n,), keeps all distances."""
        return not pin.computeCollisions(
            self._model, self._data, self._geometry, self._solids, q, True
        )

    def is_segment_free(self, start: Vector, end: Vector, step: float) -> bool:
        """Return True if all distances are kept between two configurations of all arms.

        Args:
            start: First configuration, (n,) [rad, m].
            end: Second configuration, (n,) [rad, m].
            step: Maximum joint motion between two tested configurations [rad, m].
        """
        displacement = end - start
        count = max(1, int(np.ceil(float(np.abs(displacement).max()) / step)))
        # Obstacles are rarely near the ends, so configurations in the middle are tested first.
        fractions = sorted(range(1, count + 1), key=lambda k: k & -k, reverse=True)
        return all(self.is_free(start + displacement * (k / count)) for k in fractions)


def _model_with_arm_prefix(scene: Scene, arm: str) -> Any:
    model = scene.model(arm).copy()
    for number in range(1, len(model.frames)):
        model.frames[number].name = f"{arm}/{model.frames[number].name}"
    for number in range(1, len(model.names)):
        model.names[number] = f"{arm}/{model.names[number]}"
    return model
