# SPDX-License-Identifier: Apache-2.0
"""Which pairs of links MoveIt need not check, found from the geometry of the URDF."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.collision_pairs import SELF_JOINTS
from multipanda_py.robots import ArmDescription
from multipanda_py.robots.urdf import arm_urdf
from multipanda_py.state import Vector

SAMPLES = 3000
"""Random postures that decide what never touches."""
MARGIN = 0.01
"""What comes nearer than this counts as touching [m]: samples miss the worst posture."""
_SEED = 1


class DisabledPair(NamedTuple):
    """Two links whose collisions are not looked for.

    Attributes:
        first: Name of a link.
        second: Name of the other.
        reason: As MoveIt's setup assistant calls it: Adjacent, Default, Always or Never.
    """

    first: str
    second: str
    reason: str


def pairs_of_arm(arm: ArmDescription) -> list[DisabledPair]:
    """Return the pairs of one arm, with its hand and tool.

    Links with fewer than :data:`.SELF_JOINTS` joints between them count as neighbours, as for the
    collision avoidance of the laws. Of all others it is tried in random postures, with a margin,
    whether they touch: ``Never``, ``Always``, or sometimes, and then they are checked.
    """
    model = Geometry(arm)
    undecided, found = [], []
    for first, second in combinations(model.links, 2):
        apart = abs(model.joint_of[first] - model.joint_of[second])
        if apart >= SELF_JOINTS and not model.overlap(first, second):
            undecided.append((first, second))
        else:
            reason = "Adjacent" if apart < 2 else "Default"
            found.append(DisabledPair(first, second, reason))
    for (first, second), share in model.touching(undecided).items():
        if share in (0.0, 1.0):
            found.append(DisabledPair(first, second, "Always" if share else "Never"))
    return sorted(found)


def pairs_between(one: ArmDescription, other: ArmDescription) -> Iterator[DisabledPair]:
    """Yield the pairs of two arms that can never meet: neither moves, or they reach not so far.

    Samples would not do here: what meets in one posture of ten thousand has to be seen.
    """
    here, there = Geometry(one), Geometry(other)
    gap = float(np.linalg.norm(one.position_base_in_world - other.position_base_in_world))
    for first, second in product(here.links, there.links):
        is_fixed = not here.joint_of[first] and not there.joint_of[second]
        if is_fixed or here.reach[first] + there.reach[second] + MARGIN < gap:
            yield DisabledPair(first, second, "Never")


class Geometry:
    """The collision geometry of an arm as in its URDF.

    Attributes:
        links: Names of the links that have one.
        joint_of: How many joints of the arm are before a link; fingers count as the hand.
        reach: Farthest from the base's origin that a point of a link can be, by link [m].
    """

    def __init__(self, arm: ArmDescription) -> None:
        xml = arm_urdf(arm, plain=True)
        self._arm = arm
        self._model = model = pin.buildModelFromXML(xml)
        self._solids = solids = pin.buildGeomFromUrdfString(model, xml, pin.COLLISION)
        self._of: dict[str, list[int]] = {}
        for number, solid in enumerate(solids.geometryObjects):
            self._of.setdefault(model.frames[solid.parentFrame].name, []).append(number)
        self.links = sorted(self._of)
        n = arm.n_joints
        self.joint_of = {link: min(self._joint(link), n) for link in self.links}
        self.reach = {link: self._reach(link) for link in self.links}

    def overlap(self, first: str, second: str) -> bool:
        """Return whether the shapes of two links, not the links, may touch."""
        names = [part.name for part in self._arm.robot.links]
        places = [link.removeprefix(self._arm.prefix) for link in (first, second)]
        if not all(place in names for place in places):
            return False
        pair = tuple(sorted(names.index(place) for place in places))
        return pair in self._arm.robot.overlapping

    def postures(self) -> tuple[Vector, Vector]:
        """Return the bounds of what is tried: those of joints, one turn for what has more."""
        lower, upper = self._model.lowerPositionLimit, self._model.upperPositionLimit
        slides = [self._slides(joint) for joint in range(1, self._model.njoints)]
        turns = (upper - lower > 2.0 * np.pi) & np.logical_not(slides)
        return np.where(turns, -np.pi, lower), np.where(turns, np.pi, upper)

    def touching(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], float]:
        """Return in which share of postures pairs touch; what does so sometimes is 0.5."""
        open_pairs = {pair: list(product(*(self._of[link] for link in pair))) for pair in pairs}
        share: dict[tuple[str, str], float] = {}
        lower, upper = self.postures()
        random, data = np.random.default_rng(_SEED), self._model.createData()
        checked: dict[tuple[str, str], list[int]] = {}
        placed = self._prepare(open_pairs, checked)
        for _ in range(SAMPLES):
            q = random.uniform(lower, upper)
            pin.computeCollisions(self._model, data, self._solids, placed, q, False)
            results, news = placed.collisionResults, False
            for pair, numbers in list(checked.items()):
                touches = float(any(results[number].isCollision() for number in numbers))
                if share.setdefault(pair, touches) != touches:
                    share[pair] = 0.5
                    del checked[pair], open_pairs[pair]
                    news = True
            if news:
                placed = self._prepare(open_pairs, checked)
        return share

    def _prepare(
        self,
        pairs: dict[tuple[str, str], list[tuple[int, ...]]],
        checked: dict[tuple[str, str], list[int]],
    ) -> Any:
        """Make those pairs the only ones that are checked; fill in where their results are."""
        self._solids.removeAllCollisionPairs()
        for pair, solids in pairs.items():
            checked[pair] = []
            for first, second in solids:
                checked[pair].append(len(self._solids.collisionPairs))
                self._solids.addCollisionPair(pin.CollisionPair(first, second))
        placed = pin.GeometryData(self._solids)
        for request in placed.collisionRequests:
            request.security_margin = MARGIN
        return placed

    def _joint(self, link: str) -> int:
        frame = self._model.frames[self._model.getFrameId(link)]
        return int(frame.parentJoint)

    def _slides(self, joint: int) -> bool:
        return bool(self._model.joints[joint].shortname().startswith("JointModelP"))

    def _reach(self, link: str) -> float:
        model, joint = self._model, self._joint(link)
        base = self._arm.position_base_in_world
        far = 0.0
        for number in self._of[link]:
            solid = self._solids.geometryObjects[number]
            solid.geometry.computeLocalAABB()
            center = solid.placement.act(solid.geometry.aabb_center)
            if not joint:
                center = center - base
            far = max(far, float(np.linalg.norm(center)) + solid.geometry.aabb_radius)
        while joint:
            placement = model.jointPlacements[joint].translation
            parent = int(model.parents[joint])
            far += float(np.linalg.norm(placement if parent else placement - base))
            if self._slides(joint):
                at = model.joints[joint].idx_q
                bounds = (model.lowerPositionLimit[at], model.upperPositionLimit[at])
                far += float(np.abs(bounds).max())
            joint = parent
        return far
