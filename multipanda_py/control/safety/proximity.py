# SPDX-License-Identifier: Apache-2.0
"""Which pairs of bodies are near one another now."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.safety.collision_forces import NearPairs, Pair
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.robots.dynamics.collision_pairs import NONE_HELD, Grasps, Group
from multipanda_py.state import ArmState, Matrix, Vector

_subtract, _absolute, _concatenate = np.subtract, np.absolute, np.concatenate

FASTER = 0.1
"""Change of the speed of all bodies after which they are looked at again in any case [m/s]."""
_BOTH = np.ones(2)
_WITHOUT_HAND = ("fixed", "floor", "movable")
"""Kinds of groups of an arm without its hand, which has a kind of its own."""


class Proximity:
    r"""Find the pairs that matter, and measure no others.

    What matters depends on the speed: ``reach`` says from which distance on, given a speed of
    approach. A group of pairs that was d apart is not looked at again before its bodies can
    have come within that. A look finds the speed s of every link from how it moves
    (:meth:`.CollisionGeometry.speeds`). After it no point of the link is faster than

    .. math::
        s + \sum_i r_i |\Delta \dot q_i| + R \sum_i |\dot q_{0,i}| \sum_j |\Delta q_j|, \qquad
        R = \max_i r_i

    since a turn by :math:`\Delta q_j` changes a column of a point's Jacobian by at most
    :math:`R |\Delta q_j|`; and it has moved by at most :math:`\sum_i r_i |\Delta q_i|`. The next
    look comes when the two may have used up what is left. The rate of the pairs then measured is
    exact (:class:`.NearPairs`).

    Args:
        context: The arms and what is around them.
        reach: Distance from which a pair matters [m], for an approach speed [m/s]; rising, and
            ever steeper.

    Attributes:
        scene: Collision geometry of arms and objects.

    Thread: control.
    """

    FARTHEST = 0.6
    """Nothing matters from farther away [m]."""

    def __init__(self, context: Context, reach: Callable[[float], float]) -> None:
        self.scene = scene = CollisionGeometry(context)
        self._reach, self._context = reach, context
        self._n_arms = n = context.n_arms + len(context.other_arms)
        # Positions and speeds of every arm's joints, then poses of objects, which count as still.
        # Of what they were at the last look, the weighted differences are steps and changes of
        # speeds. An arm with fewer joints than another has zeros, and weights of zero, where it
        # has none.
        room = scene.room
        joints, self._bodies = room * n, len(scene.reach)
        self._now = np.concatenate([np.zeros(2 * joints), scene.raw[joints:]])
        self._before, self._change = np.zeros((2, len(self._now)))
        self._weights = np.zeros((len(self._now), 2 * self._bodies))
        self._weights[2 * joints :, : self._bodies] = scene.reach.T[joints:]
        # Every number is about one body, so that the sums over all bodies are cheap bounds: of
        # steps, of changes of speed, and of how far joints have turned.
        self._sums = np.zeros((len(self._now), 3))
        for arm in range(n):
            own, at = scene.reach.T[room * arm : room * (arm + 1)], 2 * room * arm
            self._weights[at : at + room, : self._bodies] = own
            self._weights[at + room : at + 2 * room, self._bodies :] = own
            self._sums[at : at + room, 2] = 1.0
        self._sums[:, 0] = self._weights[:, : self._bodies].sum(1)
        self._sums[:, 1] = self._weights[:, self._bodies :].sum(1)
        self._speed_order = np.concatenate(
            [
                2 * room * arm + room + np.arange(at.stop - at.start)
                for arm, at in enumerate(scene.joints)
            ]
        )
        self._bent, self._ones = np.zeros(3), np.ones(room)
        self._farthest = float(scene.reach[:n].max())
        self._n_things = (len(scene.raw) - joints) // 7
        self._objects = context.object_poses[: self._n_things].reshape(-1)
        self._held: Grasps = NONE_HELD
        self._numbers = [0] * n
        self._kinds: Collection[str] = ()
        self._sources: list[Vector] = []
        self._travel = [0.0] * self._bodies
        self._clear = self._slack = -1.0
        self._bend = self._steepness = 0.0
        self._none: list[Pair] = []
        self._distance = self._least = 0.0
        self._fastest: list[float] = []
        self.groups: list[Group] = []
        self._pairs = NearPairs(scene, reach)

    def choose(self, kinds: Collection[str], distance: float) -> None:
        """Keep the groups of some kinds, which matter at rest from ``distance`` [m] on."""
        self._distance, self._kinds = distance, kinds
        self._select()
        for group in self.groups:
            group.begins = [min(begin, distance) for begin in group.begins]
        self._restart()

    def _select(self) -> None:
        """Keep the groups of the chosen kinds that count with what is held now."""
        kinds = self._kinds
        counting = self.scene.groups_with(self._held)
        self.groups = [group for group in counting if group.kind in kinds]
        for group in self.groups:
            group.places = group.places or [
                (self._movers(group.first, [link])[0], self._movers(group.second, [other])[0])
                for link, other in group.pairs
            ]
            hand_may = group.kind in _WITHOUT_HAND and f"{group.kind}_hand" not in kinds
            group.is_foreseen = not (hand_may or group.is_touched)
        sides = [
            self._movers(body, group.links[side])
            for group in self.groups
            for side, body in enumerate((group.first, group.second))
        ]
        self._starts = np.cumsum([0, *map(len, sides)])[:-1]
        self._places = np.array([place for side in sides for place in side], dtype=int)

    def _movers(self, body: int, links: Sequence[int]) -> list[int]:
        """Return where :meth:`_speeds` finds how fast some links of a body are."""
        n, world = len(self._speed_order), len(self._speed_order) + self._bodies - 1
        if body >= self._n_arms:
            return [n + body]
        first = self.scene.joints[body].start
        return [first + link - 1 if link else world for link in links]

    def start(self) -> None:
        """Let be what is near already, and push what comes near from now on.

        What was so far apart at the last look that it cannot be near yet is not measured again.
        """
        _concatenate(self._sources, out=self._now)
        if self._is_grip_old():
            self._grip()
        change = _absolute(_subtract(self._now, self._before, self._change), self._change)
        if self._clear - change.dot(self._sums, self._bent).item(0) >= self._distance:
            for group in self.groups:
                group.begins = [self._distance] * len(group.pairs)
            return
        self._remember(change.dot(self._weights)[: self._bodies].tolist())
        travel, distance = self._travel, self._distance
        clear, placed = math.inf, False
        for group in self.groups:
            first, second = group.first, group.second
            total = travel[first] + (travel[second] if first != second else 0.0)
            left = group.limit - total
            if left < distance:
                if not placed:
                    self._place()
                    placed = True
                left = self._let_be(group)
                group.limit = total + left
            else:
                group.begins = [distance] * len(group.pairs)
            clear = min(clear, left)
        self._clear, self._slack = clear, -1.0  # how fast they are is left to the next look

    def _remember(self, steps: Sequence[float]) -> None:
        """Count what the bodies have moved up to now [m], and measure further steps from here."""
        travel = self._travel
        for body, step in enumerate(steps):
            travel[body] += step
        self._before[:] = self._now

    def _let_be(self, group: Group) -> float:
        """Have pairs of a group that are near now begin where they are; return its distance."""
        scene, distance = self.scene, self._distance
        nearest = group.measure(scene.model, scene.data, distance)
        if nearest >= distance:  # as most: no look at each
            group.begins = [distance] * len(group.pairs)
        else:
            group.begins = [min(r.min_distance, distance) for r in group.results]
        return nearest

    def _is_grip_old(self) -> bool:
        """Whether hands hold something else than at the last look at it."""
        return self._numbers != [state.holds.item() for state in self._everyone]

    def _grip(self) -> None:
        """Make what is held a part of its hand from now on, and what is not a thing again."""
        self._numbers = [state.holds.item() for state in self._everyone]
        before = set(self.groups)
        self._held = frozenset(
            (arm, number - 1)
            for arm, number in enumerate(self._numbers)
            if 0 < number <= self._n_things
        )
        self._place()
        n, reach, room = self._n_arms, self.scene.reach, self.scene.room
        self._weights[:, self._bodies + n :] = 0.0
        for arm, thing in self._held:  # as fast as the hand, and farther out
            at = 2 * room * arm + room
            self._weights[at : at + room, self._bodies + n + thing] += reach[
                arm, room * arm : room * (arm + 1)
            ] + self.scene.extent(arm, thing)
        self._sums[:, 1] = self._weights[:, self._bodies :].sum(1)
        self._select()
        for group in self.groups:
            if group not in before:
                self._let_be(group)
        self._restart()

    def _restart(self) -> None:
        self._travel = [0.0] * len(self._travel)
        for group in self.groups:
            group.limit = -1.0
        self._clear = self._slack = -1.0

    def follow(self, everyone: Sequence[ArmState]) -> None:
        """Take positions and speeds from these states from now on, own arms first."""
        self._everyone = everyone
        self._sources = [state.q_dq for state in everyone]
        if self._objects.size:
            self._sources.append(self._objects)

    def find(self, ahead: float = 0.0) -> list[Pair]:
        """Return the pairs that matter now.

        Args:
            ahead: Distance up to which pairs matter in any case, for references that are ahead
                of their arms [m]. Not with what a hand may touch: there a reference lies
                behind the contact because the arm does not follow it.
        """
        self._least = max(self._distance, min(ahead, self.FARTHEST))
        change = self._change
        _concatenate(self._sources, out=self._now)
        if self._n_things and self._is_grip_old():
            self._grip()
        _absolute(_subtract(self._now, self._before, change), change)
        step, faster, turned = change.dot(self._sums, self._bent).tolist()
        faster += self._bend * turned
        if (
            self._clear - step >= self._least
            and faster <= FASTER
            and step + self._steepness * faster <= self._slack
        ):
            return self._none
        return self._look(change.dot(self._weights).tolist()[: self._bodies])

    def _look(self, steps: Sequence[float]) -> list[Pair]:
        """Measure the groups whose bodies may have come so near that it matters."""
        scene, travel, reach, least = self.scene, self._travel, self._reach, self._least
        self._remember(steps)
        self._place()
        near: list[tuple[Group, float]] = []
        clear = slack = math.inf
        fastest = 0.0
        for group, speed in zip(self.groups, self._speeds()):
            total, within = travel[group.first], group.first == group.second
            if not within:  # else it is one link as seen from another
                total += travel[group.second]
            far = reach(speed)
            if far > self.FARTHEST:
                far = self.FARTHEST
            matters = far if far > least else least
            left = group.limit - total
            if left < matters:
                left = group.measure(scene.model, scene.data, matters)
                group.limit = total + left
                if left < matters:
                    near.append((group, matters))
                else:  # all of it has parted
                    group.begins = [self._distance] * len(group.begins)
            if left < clear:
                clear = left
            room = 0.5 * (left - far) if within else left - far  # two links of an arm count twice
            if room < slack:
                slack = room
            if speed > fastest:
                fastest = speed
        self._clear, self._slack = clear, slack
        self._steepness = 0.5 * (reach(fastest + 2.0 * FASTER) - reach(fastest)) / FASTER
        if not near:
            return self._none
        return self._pairs.find(near, self._everyone, self._distance, self._least, self._fastest)

    def _speeds(self) -> list[float]:
        """Return for every group what none of its pairs can near one another faster than [m/s]."""
        size, room = _absolute(self._now), self.scene.room
        bounds = size.dot(self._weights)[self._bodies :]
        self._bend = self._farthest * max(self._arms(size)[:, room:].dot(self._ones).tolist())
        # What is held is as fast as it can be on its arm; so are links as seen from others.
        every = _concatenate((self.scene.speeds(), bounds))
        self._fastest = every.tolist()
        each = every.take(self._places)
        fastest = np.maximum.reduceat(each, self._starts).reshape(-1, 2).dot(_BOTH).tolist()
        most = bounds.tolist()
        return [
            speed if group.first != group.second else min(speed, most[group.first])
            for group, speed in zip(self.groups, fastest)
        ]

    def _arms(self, values: Vector) -> Matrix:
        """Return the part of ``_now`` or its like that is about the arms, (n, 2 room)."""
        both = 2 * self.scene.room
        return values[: both * self._n_arms].reshape(-1, both)

    def _place(self) -> None:
        """Put all bodies where they are now."""
        raw, room = self.scene.raw, self.scene.room
        joints = room * self._n_arms
        raw[:joints].reshape(-1, room)[:] = self._arms(self._now)[:, :room]
        raw[joints:] = self._now[2 * joints :]
        self._now.take(self._speed_order, out=self.scene.v[: len(self._speed_order)])
        self.scene.place()
