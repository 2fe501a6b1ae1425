# SPDX-License-Identifier: Apache-2.0
"""Pairs of collision solids whose distances are computed, grouped by their two bodies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any, TypeAlias

import coal
import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py.robots import ArmDescription

Grasps: TypeAlias = frozenset[tuple[int, int]]
"""Grasped objects: pairs of arm index and movable-object index, from 0."""
NO_GRASPS: Grasps = frozenset()


@dataclass(frozen=True)
class Solid:
    """Convex collision solid of an arm or object.

    Attributes:
        shape: Geometry, as an object of the library coal.
        joint: Index of the joint that moves the solid, in the model of all arms and objects; 0 for
            the world.
        placement: Pose in the frame of ``joint``.
        own_joint: Index of ``joint`` in its arm, from 1; 0 for the base of an arm, and for objects
            that are not grasped.
        is_static: True if no joint of an arm moves the solid, except about its own axis.
        is_gripper: True if it belongs to a gripper or tool, or to the last link of an arm
            without gripper and tool.
        names: Names by which a cell file can allow contact with the solid.
        radius: Radius of a ball around the origin of ``joint`` that contains the solid [m];
            infinite if unknown.
    """

    shape: Any
    joint: int
    placement: Any
    own_joint: int = 0
    is_static: bool = True
    is_gripper: bool = False
    names: tuple[str, ...] = ()
    radius: float = math.inf

    def __str__(self) -> str:
        name = self.names[-1]
        is_link = self.own_joint > 0 and "/" not in name
        return f"{name} link {self.own_joint}" if is_link else name

    @property
    def body(self) -> str:
        """Name of the arm or object of this solid; for a grasped object the name of the object."""
        name = self.names[-1]
        return self.names[0] if "/" in name else name

    def parts_against(self, other: Solid) -> list[Solid]:
        """Return the solids that replace this solid in distances to another one.

        Against flat faces, a capsule gets a ball at each end. Against a plane, balls replace it.
        """
        round_shapes = coal.Capsule | coal.Sphere
        if isinstance(other.shape, round_shapes) or not isinstance(self.shape, coal.Capsule):
            return [self]
        # Without balls, the closest point of a capsule parallel to a face would jump, and a
        # repulsive force at this point would make the arm rock.
        is_plane = isinstance(other.shape, coal.Halfspace)
        return [*self._ends] if is_plane else [self, *self._ends]

    @cached_property
    def _ends(self) -> tuple[Solid, Solid]:
        half = pin.SE3(np.eye(3), np.array([0.0, 0.0, self.shape.halfLength]))
        ball = coal.Sphere(self.shape.radius)
        one, other = (
            replace(self, shape=ball, placement=self.placement * end)
            for end in (half, half.inverse())
        )
        return one, other


class Group:
    """Pairs of collision solids of two bodies whose distances are computed together.

    A body is an arm, a movable object or the world. Call :meth:`build` before the loop runs.

    Attributes:
        kind: ``arms``, ``self``, ``fixed``, ``fixed_hand``, ``movable``, ``movable_hand``,
            ``floor`` or ``floor_hand``. The suffix marks groups of a gripper, tool or grasped
            object.
        first: Index of the first body. Arms come first, then movable objects, then the world.
        second: Index of the second body.
        solids: First and second solid of each pair.
        pairs: Joint indices of the first and second solid of each pair, each counted in its arm.
        links: Sorted joint indices of all first solids, and of all second solids.
        results: Distance result of coal for every pair; empty before :meth:`build`.
        free_travel: Total path length of both bodies before they can touch [m].
        near_distances: Distance of each pair below which solids at rest are pushed apart [m].
        movers: Indices of the bodies that move the first and the second solids: the bodies
            themselves, or the arms that grasp them.
        held: Grasps (arm index, object index) without which the group is not used.
        free: Grasps (arm index, object index) during which the group is not used.
        is_touched: True if the cell allows the gripper of the first body to touch the second body.
        is_foreseen: True if its distances also limit references, which move ahead of the arms.
        speed_indices: Indices of both links of every pair in the link speeds of
            :class:`.Proximity`.
    """

    def __init__(
        self,
        kind: str,
        first: int,
        second: int,
        pairs: Sequence[tuple[Solid, Solid]],
        movers: tuple[int, int] | None = None,
        held: Grasps = NO_GRASPS,
        free: Grasps = NO_GRASPS,
        is_touched: bool = False,
    ) -> None:
        self.kind, self.first, self.second = kind, first, second
        self.is_touched, self.is_foreseen = is_touched, True
        self.movers = (first, second) if movers is None else movers
        self.held, self.free = held, free
        self.solids = pairs
        self._geometry: Any = None
        self._data: Any = None
        self.pairs = [(a.own_joint, b.own_joint) for a, b in pairs]
        self.links = [sorted({pair[side] for pair in self.pairs}) for side in (0, 1)]
        self.results: list[Any] = []
        self.free_travel = -1.0
        self.near_distances = [math.inf] * len(pairs)
        self.speed_indices: list[tuple[int, int]] = []

    def build(self) -> None:
        """Build the pinocchio geometry model with which :meth:`measure` computes distances."""
        self._geometry = geometry = pin.GeometryModel()
        at: dict[int, int] = {}
        for solid in (solid for pair in self.solids for solid in pair):
            if id(solid) not in at:
                at[id(solid)] = geometry.addGeometryObject(
                    pin.GeometryObject(str(len(at)), solid.joint, solid.placement, solid.shape)
                )
        for a, b in self.solids:
            geometry.addCollisionPair(pin.CollisionPair(at[id(a)], at[id(b)]))
        self._data = geometry.createData()
        # The distance search of coal gets no warm start. With it, rounding errors would depend on
        # earlier motions, and episodes with equal seeds would differ.
        requests = self._data.distanceRequests
        for index in range(len(requests)):
            requests[index] = coal.DistanceRequest(True)
        self.results = [self._data.distanceResults[i] for i in range(len(self.solids))]

    def is_active(self, held: Grasps) -> bool:
        """Return True if the distances of this group are needed during the present grasps.

        ``held`` are the grasps, as pairs of arm index and object index.
        """
        return self.held <= held and held.isdisjoint(self.free)

    def measure(self, model: Any, data: Any, enough: float = math.inf) -> float:
        """Update ``results`` and return the minimum distance of the group [m].

        Args:
            model: Kinematic model of all bodies.
            data: Present kinematics.
            enough: Distance above which a lower bound may be returned [m].
        """
        if not self.results:
            apart = self._distance_lower_bound(data)
            if apart >= enough:
                return apart
            self.build()
        pin.updateGeometryPlacements(model, data, self._geometry, self._data)
        nearest: float = self.results[
            pin.computeDistances(self._geometry, self._data)
        ].min_distance
        return nearest

    def _distance_lower_bound(self, data: Any) -> float:
        # Bound in m from balls that contain the solids; -inf without a finite radius. Only movable
        # objects have finite radii. Each is a single solid, so a group of two objects
        # has only one pair.
        a, b = self.solids[0]
        centres = [data.oMi[solid.joint].translation.tolist() for solid in (a, b)]
        return math.dist(*centres) - a.radius - b.radius


_HAND = ("hand", "tool")


def is_gripper(arm: ArmDescription, link: str, joint: int) -> bool:
    """Return True if a link belongs to the gripper or tool of an arm.

    For an arm without gripper and tool, return True for its last moving link.

    Args:
        arm: Description of the arm.
        link: Name of the link, with the arm's prefix.
        joint: Index of the joint that moves the link, from 1.
    """
    return link.removeprefix(arm.prefix) in _HAND or (
        joint == arm.n_joints and not arm.hand and arm.tool is None
    )


def is_static_capsule(
    arm: ArmDescription, joint: int, placement: Any, start: ArrayLike, end: ArrayLike
) -> bool:
    """Return True if no joint moves a capsule, except about its own axis.

    Args:
        arm: Description of the arm.
        joint: Index of the joint that moves the capsule, from 1; 0 for the base.
        placement: Pose of the capsule's frame in the frame of the joint.
        start: First end of its axis in its frame, (3,) [m].
        end: Second end of its axis in its frame, (3,) [m].
    """
    if joint == 0:
        return True
    if joint != 1 or arm.limits.slides[0]:
        return False
    points = np.array([placement.act(np.array(point)) for point in (start, end)])
    return float(np.abs(np.cross(arm.robot.joints[0].axis, points)).max()) < 1e-9


SELF_JOINTS = 3
"""Minimum difference of joint indices for a distance between two links of one arm. Links two
joints apart are always close. Only the rounded ends of their capsules can touch."""


class CollisionPairs:
    """Pairs of collision solids that arms of a controllet can move, in groups of two bodies.

    A grasped object counts as a part of the gripper, and has groups for this grasp.

    Args:
        described: Descriptions of all arms of the cell. Those of the controllet come first.
        n_own: Number of arms of the controllet.
        arms: Solids of every arm.
        movable: Solid of every movable object.
        fixed: Solid of every fixed object.
        floor: Solid of the floor.
        touching: Pairs of names of bodies that may touch.
        hands_meet: True if the grippers of the controllet's arms may touch each other.
    """

    def __init__(
        self,
        described: Sequence[ArmDescription],
        n_own: int,
        arms: Sequence[Sequence[Solid]],
        movable: Sequence[Solid],
        fixed: Sequence[Solid],
        floor: Solid,
        *,
        touching: Iterable[tuple[str, str]],
        hands_meet: bool,
    ) -> None:
        self._everyone = tuple(described)
        self._arms, self._movable, self._fixed, self._floor = arms, movable, fixed, floor
        self._n_own, self._world = n_own, len(arms) + len(movable)
        self._joints = [arm.n_joints for arm in described]
        self._sections = [arm.robot.sections for arm in described]
        self._touching = {frozenset(pair) for pair in touching}
        self._hands_meet = hands_meet
        self._among: dict[tuple[tuple[int, int], ...], list[Group]] = {}

    def groups(self) -> Iterator[Group]:
        """Create the groups of all pairs of solids that joints of the controllet's arms can move.

        :meth:`grasped_object_groups` has the groups of grasped objects and other movable objects.
        """
        n_own = self._n_own
        n, world = len(self._arms), self._world
        yield from self._groups_of_possible_grasps()
        for a, b in combinations(range(n), 2):
            if a < n_own:
                mine, theirs = self._arms[a], self._arms[b]
                # A base that two arms share is left out here. Groups of kind "self" contain its
                # distances to the links of each arm.
                if self._everyone[a].shares_base(self._everyone[b]):
                    mine, theirs = ([s for s in arm if s.own_joint] for arm in (mine, theirs))
                for here, there in product(self._sections[a], self._sections[b]):
                    yield from self._filtered_group("arms", a, b, _within(mine, here),
                                           _within(theirs, there), b < n_own)  # fmt: skip
        for a in range(n_own):
            mine = self._arms[a]
            pairs = [
                (x, y)
                for x, y in combinations(mine, 2)
                if abs(x.own_joint - y.own_joint) >= SELF_JOINTS
            ]
            if pairs:
                yield Group("self", a, a, pairs)
            hand = [solid for solid in mine if solid.is_gripper]
            links = [solid for solid in mine if not solid.is_gripper]
            objects = [("floor", world, self._floor, NO_GRASPS)]
            objects += [("fixed", world, solid, NO_GRASPS) for solid in self._fixed]
            objects += [
                ("movable", n + index, solid, self._grasps_of(index))
                for index, solid in enumerate(self._movable)
            ]
            for kind, body, solid, free in objects:
                touched = any(self._may_touch(part, solid) for part in hand)
                for name, parts in ((kind, links), (f"{kind}_hand", hand)):
                    yield from self._filtered_group(
                        name, a, body, parts, [solid], free=free, is_touched=touched
                    )

    def _may_touch(self, first: Solid, second: Solid) -> bool:
        return any(
            frozenset(names) in self._touching for names in product(first.names, second.names)
        )

    def _grasps_of(self, object_index: int) -> Grasps:
        return frozenset((arm, object_index) for arm in range(len(self._arms)))

    def _groups_of_possible_grasps(self) -> Iterator[Group]:
        n_own = self._n_own
        n = len(self._arms)
        for a, index in product(range(n), range(len(self._movable))):
            body, grasp = n + index, frozenset({(a, index)})
            obj = self._grasped_solid(a, index)
            for b in range(n):
                last = self._joints[b]
                links = [s for s in self._arms[b] if a != b or last - s.own_joint >= SELF_JOINTS]
                kind, free = ("self", NO_GRASPS) if a == b else ("arms", frozenset({(b, index)}))
                for section in self._sections[b] if min(a, b) < n_own else ():
                    yield from self._filtered_group(
                        kind, b, body, _within(links, section), [obj], max(a, b) < n_own,
                        movers=(b, a), held=grasp, free=free,
                    )  # fmt: skip
            for kind, solid in [("floor", self._floor), *(("fixed", s) for s in self._fixed)]:
                if a < n_own:
                    yield from self._filtered_group(
                        f"{kind}_hand", body, self._world, [obj], [solid],
                        movers=(a, self._world), held=grasp,
                    )  # fmt: skip

    def grasped_object_groups(self, held: Grasps) -> list[Group]:
        """Return the groups of grasped objects against all other movable objects.

        ``held`` are all present grasps, as pairs of arm index and object index.
        """
        result = []
        for arm, index in sorted(held):
            for other in range(len(self._movable)):
                holders = [b for b, obj in held if obj == other]
                if other != index and not holders and arm < self._n_own:
                    result += self._two_object_groups(
                        (arm, index), (len(self._arms) + other, other)
                    )
                for b in holders if other != index else ():
                    if b < arm and b < self._n_own:
                        result += self._two_object_groups((arm, index), (b, other))
        return result

    def _two_object_groups(self, grasp: tuple[int, int], other: tuple[int, int]) -> list[Group]:
        # Pairs (arm index, object index); in ``other``, a body index replaces the arm index of an
        # object that no arm grasps.
        if (grasp, other) not in self._among:
            (arm, index), (mover, number), n = grasp, other, len(self._arms)
            kind, second, both_own = "movable_hand", self._movable[number], False
            if mover < n:
                kind, second, both_own = (
                    "arms",
                    self._grasped_solid(mover, number),
                    arm < self._n_own,
                )
            groups = self._filtered_group(
                kind, n + index, n + number, [self._grasped_solid(arm, index)], [second], both_own,
                movers=(arm, mover),
            )  # fmt: skip
            self._among[grasp, other] = list(groups)
        return self._among[grasp, other]

    def _grasped_solid(self, arm: int, object_index: int) -> Solid:
        obj, name = self._movable[object_index], self._arms[arm][0].names[0]
        names = (name, f"{name}/gripper", *obj.names)
        return replace(
            obj, own_joint=self._joints[arm], is_static=False, is_gripper=True, names=names
        )

    def _filtered_group(
        self,
        kind: str,
        first_body: int,
        second_body: int,
        first_solids: Sequence[Solid],
        second_solids: Sequence[Solid],
        both_own: bool = False,
        **grasp: Any,
    ) -> Iterator[Group]:
        hands_meet = self._hands_meet and both_own
        pairs = [
            (part, y)
            for x, y in product(first_solids, second_solids)
            if not (hands_meet and x.is_gripper and y.is_gripper) and not self._may_touch(x, y)
            for part in x.parts_against(y)
            if not (x.is_static and y.is_static) or (kind.startswith("movable") and x.own_joint)
        ]
        if pairs:
            yield Group(kind, first_body, second_body, pairs, **grasp)


def _within(solids: Sequence[Solid], joints: Sequence[int]) -> list[Solid]:
    return [solid for solid in solids if solid.own_joint in joints]
