# SPDX-License-Identifier: Apache-2.0
"""Solids, and groups of pairs of them whose distances are measured together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import coal
import numpy as np
import pinocchio as pin

Grasps: TypeAlias = frozenset[tuple[int, int]]
"""What is held: numbers of the arm and of the movable object, from 0."""
NONE_HELD: Grasps = frozenset()


@dataclass(frozen=True)
class Solid:
    """One convex piece of geometry.

    Attributes:
        shape: As coal knows it.
        joint: Joint of the combined model that it moves with; 0 is the world.
        placement: In the frame of that joint.
        own_joint: Number of the joint in its own arm, from 1; 0 for what is fixed.
        stays: Whether no joint of its arm moves it: it is fixed, or turns about its own axis.
        is_hand: Whether it belongs to a hand or tool; without both, to the flange.
        names: What it goes by in pairs that are meant to touch.
        radius: Of a ball around its joint's origin that it is in; infinite where nobody knows [m].
    """

    shape: Any
    joint: int
    placement: Any
    own_joint: int = 0
    stays: bool = True
    is_hand: bool = False
    names: tuple[str, ...] = ()
    radius: float = math.inf

    def __str__(self) -> str:
        name = self.names[-1]
        is_link = self.own_joint > 0 and "/" not in name
        return f"{name} link {self.own_joint}" if is_link else name

    @property
    def body(self) -> str:
        """Name of its arm or object; an object in a gripper keeps its own name."""
        name = self.names[-1]
        return self.names[0] if "/" in name else name

    def against(self, other: Solid) -> list[Solid]:
        """Return what to measure of a capsule against another solid: its ends too, if flat.

        One closest point of a capsule that lies along a face jumps from end to end, and what
        is pushed there rocks. To a plane the ends are all there is.
        """
        round_shapes = coal.Capsule | coal.Sphere
        if isinstance(other.shape, round_shapes) or not isinstance(self.shape, coal.Capsule):
            return [self]
        is_plane = isinstance(other.shape, coal.Halfspace)
        return [*self._ends] if is_plane else [self, *self._ends]

    @cached_property
    def _ends(self) -> tuple[Solid, Solid]:
        """Balls at the ends of a capsule."""
        half = pin.SE3(np.eye(3), np.array([0.0, 0.0, self.shape.halfLength]))
        ball = coal.Sphere(self.shape.radius)
        one, other = (
            replace(self, shape=ball, placement=self.placement * end)
            for end in (half, half.inverse())
        )
        return one, other


class Group:
    """Pairs of solids of two bodies, whose distances are computed together or not at all.

    What computes them takes a tenth of a millisecond to make. A group that is made while the loop
    runs leaves that to the first time at which balls around its solids are too near each other to
    do without.

    Attributes:
        kind: ``arms``, ``self``, ``fixed``, ``fixed_hand``, ``movable``, ``movable_hand``,
            ``floor`` or ``floor_hand``.
        first: Number of the first body: arms, then movable objects, then the world.
        second: Number of the second body.
        solids: Of every pair.
        pairs: For every pair the number of the joint in its arm that either solid moves with.
        links: The numbers of these joints, of the first solids and of the second.
        results: For every pair coal's live result; none before :meth:`build`.
        limit: Travel of both bodies up to which no pair can have touched.
        begins: For every pair the distance from which it counts as near at rest [m].
        movers: The bodies with whose joints the solids move: those, or the arms that hold them.
        held: What has to be in a hand for this group to count: (arm, object) each.
        free: What must not be.
        is_touched: Whether the hand of the first body is meant to touch the second.
        is_foreseen: Whether a reference that is ahead of its arm is to keep away, too.
        places: For every pair where :class:`.Proximity` has the speeds of its two links.
    """

    def __init__(
        self,
        kind: str,
        first: int,
        second: int,
        pairs: Sequence[tuple[Solid, Solid]],
        movers: tuple[int, int] | None = None,
        held: Grasps = NONE_HELD,
        free: Grasps = NONE_HELD,
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
        self.limit = -1.0
        self.begins = [math.inf] * len(pairs)
        self.places: list[tuple[int, int]] = []

    def build(self) -> None:
        """Make what computes the distances, at the start or when it is needed first."""
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
        # By default a search begins where the last one ended, and what was before an episode would
        # be in the last bits of its distances.
        requests = self._data.distanceRequests
        for index in range(len(requests)):
            requests[index] = coal.DistanceRequest(True)
        self.results = [self._data.distanceResults[i] for i in range(len(self.solids))]

    def counts(self, held: Grasps) -> bool:
        """Return whether the group is one while ``held`` is in the hands."""
        return self.held <= held and held.isdisjoint(self.free)

    def measure(self, model: Any, data: Any, enough: float = math.inf) -> float:
        """Return the smallest distance of the group [m], and refresh all results.

        Args:
            model: Kinematics of all bodies.
            data: Where they are.
            enough: A group that is not built yet may leave it at a bound that is no less [m].
        """
        if not self.results:
            apart = self._at_least(data)
            if apart >= enough:
                return apart
            self.build()
        pin.updateGeometryPlacements(model, data, self._geometry, self._data)
        nearest: float = self.results[
            pin.computeDistances(self._geometry, self._data)
        ].min_distance
        return nearest

    def _at_least(self, data: Any) -> float:
        """Return how far balls around the solids are apart [m], negative where there are none."""
        a, b = self.solids[0]  # finite radii are those of things, each on a joint of its own
        centres = [data.oMi[solid.joint].translation.tolist() for solid in (a, b)]
        return math.dist(*centres) - a.radius - b.radius
