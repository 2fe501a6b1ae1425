# SPDX-License-Identifier: Apache-2.0
"""Search for pairs of solids that are near each other, with few distance computations."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
from numpy import absolute, concatenate, subtract

from multipanda_py.context import Context
from multipanda_py.control.safety.collision_forces import NearPairs, Pair
from multipanda_py.control.safety.collision_geometry import CollisionGeometry
from multipanda_py.robots.collision_pairs import NO_GRASPS, Grasps, Group
from multipanda_py.state import ArmState, Matrix, Vector

RECHECK_SPEED_CHANGE = 0.1
"""Sum of the speed changes of all bodies after which their distances are always checked [m/s]."""
_BOTH = np.ones(2)
_WITHOUT_HAND = ("fixed", "floor", "movable")
"""Kinds of groups that contain the links of an arm but not its gripper. Those of the gripper have
the suffix ``_hand``."""


class Proximity:
    """Search for the pairs of solids that are relevant at the current speeds.

    A pair is relevant if braking or repulsion may act on it: if its distance is below
    ``reach(v)`` at its approach speed v. The pairs of two bodies form a group.

    A check measures the distances of groups that may contain relevant pairs. The next check is due
    when another pair may have become relevant. Upper bounds of the motion since the last check
    decide this. Each point of a link has moved by no more than ``sum_i r_i |delta q_i|``, and its
    speed is no higher than::

        s + sum_i r_i |delta dq_i| + R sum_i |dq_0,i| sum_j |delta q_j|,   R = max_i r_i

    - s: Bound of the point speed at the check, see ``CollisionGeometry.speeds`` [m/s].
    - r_i: Weight of joint i, see ``CollisionGeometry`` [m].
    - delta q_j, delta dq_i: Changes of position [rad] and velocity [rad/s] since the check.
    - dq_0,i: Velocity of joint i at the check [rad/s].

    Args:
        context: Context of the controllet with arms and objects.
        reach: Function from an approach speed [m/s] to the distance below which a pair is relevant
            [m]. It must be increasing and convex.

    Attributes:
        scene: Collision geometry of arms and objects.

    Thread: control.
    """

    MAX_PAIR_DISTANCE = 0.6
    """Maximum distance of a relevant pair [m]."""

    def __init__(self, context: Context, reach: Callable[[float], float]) -> None:
        self.scene = scene = CollisionGeometry(context)
        self._reach, self._context = reach, context
        self._n_arms = n = context.n_arms + len(context.other_arms)
        # ``_now`` contains the joint positions and speeds of each arm, then the object poses.
        # ``_weights`` convert its changes to upper bounds on the motion and speed change of each
        # body. All arms have as many elements as the largest one; unused elements are zero.
        width = scene.joint_count
        joints, self._bodies = width * n, len(scene.reach)
        self._now = np.concatenate([np.zeros(2 * joints), scene.raw[joints:]])
        self._before, self._change = np.zeros((2, len(self._now)))
        self._weights = np.zeros((len(self._now), 2 * self._bodies))
        self._weights[2 * joints :, : self._bodies] = scene.reach.T[joints:]
        # Sums over all bodies of their motions, speed changes and joint rotations. They are also
        # upper bounds for any two bodies, and are computed faster than one value per body.
        self._sums = np.zeros((len(self._now), 3))
        for arm in range(n):
            own, at = scene.reach.T[width * arm : width * (arm + 1)], 2 * width * arm
            self._weights[at : at + width, : self._bodies] = own
            self._weights[at + width : at + 2 * width, self._bodies :] = own
            self._sums[at : at + width, 2] = 1.0
        self._sums[:, 0] = self._weights[:, : self._bodies].sum(1)
        self._sums[:, 1] = self._weights[:, self._bodies :].sum(1)
        self._speed_order = np.concatenate(
            [
                2 * width * arm + width + np.arange(at.stop - at.start)
                for arm, at in enumerate(scene.joints)
            ]
        )
        self._bent, self._ones = np.zeros(3), np.ones(width)
        self._farthest = float(scene.reach[:n].max())
        self._n_objects = (len(scene.raw) - joints) // 7
        self._objects = context.object_poses[: self._n_objects].reshape(-1)
        self._held: Grasps = NO_GRASPS
        self._numbers = [0] * n
        self._kinds: Collection[str] = ()
        self._sources: list[Vector] = []
        self._travel = [0.0] * self._bodies
        self._clear = self._slack = -1.0
        self._bend = self._steepness = 0.0
        self._empty: list[Pair] = []
        self._distance = self._min = 0.0
        self._fastest: list[float] = []
        self.groups: list[Group] = []
        self._pairs = NearPairs(scene, reach)

    def choose(self, kinds: Collection[str], distance: float) -> None:
        """Select the groups of pairs to search, and the distance of the repulsion.

        Args:
            kinds: Kinds of groups to measure, see ``Group.kind``.
            distance: Distance below which solids are pushed apart [m].
        """
        self._distance, self._kinds = distance, kinds
        self._select_groups()
        for group in self.groups:
            group.near_distances = [min(start, distance) for start in group.near_distances]
        self._restart()

    def _select_groups(self) -> None:
        kinds = self._kinds
        counting = self.scene.groups_with(self._held)
        self.groups = [group for group in counting if group.kind in kinds]
        for group in self.groups:
            group.speed_indices = group.speed_indices or [
                (
                    self._speed_indices(group.first, [link])[0],
                    self._speed_indices(group.second, [other])[0],
                )
                for link, other in group.pairs
            ]
            hand_may = group.kind in _WITHOUT_HAND and f"{group.kind}_hand" not in kinds
            group.is_foreseen = not (hand_may or group.is_touched)
        sides = [
            self._speed_indices(body, group.links[side])
            for group in self.groups
            for side, body in enumerate((group.first, group.second))
        ]
        self._starts = np.cumsum([0, *map(len, sides)])[:-1]
        self._link_indices = np.array([index for side in sides for index in side], dtype=int)

    def _speed_indices(self, body: int, links: Sequence[int]) -> list[int]:
        n, world = len(self._speed_order), len(self._speed_order) + self._bodies - 1
        if body >= self._n_arms:
            return [n + body]
        first = self.scene.joints[body].start
        return [first + link - 1 if link else world for link in links]

    def start(self) -> None:
        """Let the repulsion of solids that are near now begin at their current distance."""
        concatenate(self._sources, out=self._now)
        if self._grasp_changed():
            self._update_grasps()
        change = absolute(subtract(self._now, self._before, self._change), self._change)
        if self._clear - change.dot(self._sums, self._bent).item(0) >= self._distance:
            for group in self.groups:
                group.near_distances = [self._distance] * len(group.pairs)
            return
        self._add_travel(change.dot(self._weights)[: self._bodies].tolist())
        travel, distance = self._travel, self._distance
        clear, placed = math.inf, False
        for group in self.groups:
            first, second = group.first, group.second
            total = travel[first] + (travel[second] if first != second else 0.0)
            left = group.free_travel - total
            if left < distance:
                if not placed:
                    self._update_placements()
                    placed = True
                left = self._start_repulsion_at_distance(group)
                group.free_travel = total + left
            else:
                group.near_distances = [distance] * len(group.pairs)
            clear = min(clear, left)
        # With a negative ``_slack``, the next call of ``find`` makes a check.
        self._clear, self._slack = clear, -1.0

    def _add_travel(self, steps: Sequence[float]) -> None:
        travel = self._travel
        for body, step in enumerate(steps):
            travel[body] += step
        self._before[:] = self._now

    def _start_repulsion_at_distance(self, group: Group) -> float:
        scene, distance = self.scene, self._distance
        nearest = group.measure(scene.model, scene.data, distance)
        # Usually no pair is near, so a loop over all pairs is not needed.
        if nearest >= distance:
            group.near_distances = [distance] * len(group.pairs)
        else:
            group.near_distances = [min(r.min_distance, distance) for r in group.results]
        return nearest

    def _grasp_changed(self) -> bool:
        return self._numbers != [state.attached_object.item() for state in self._everyone]

    def _update_grasps(self) -> None:
        self._numbers = [state.attached_object.item() for state in self._everyone]
        before = set(self.groups)
        self._held = frozenset(
            (arm, number - 1)
            for arm, number in enumerate(self._numbers)
            if 0 < number <= self._n_objects
        )
        self._update_placements()
        n, reach, width = self._n_arms, self.scene.reach, self.scene.joint_count
        self._weights[:, self._bodies + n :] = 0.0
        # The arm also moves the grasped object, whose points are farther from the joints than
        # those of the arm. Add its extent to the weights.
        for arm, obj in self._held:
            at = 2 * width * arm + width
            self._weights[at : at + width, self._bodies + n + obj] += reach[
                arm, width * arm : width * (arm + 1)
            ] + self.scene.extent(arm, obj)
        self._sums[:, 1] = self._weights[:, self._bodies :].sum(1)
        self._select_groups()
        for group in self.groups:
            if group not in before:
                self._start_repulsion_at_distance(group)
        self._restart()

    def _restart(self) -> None:
        self._travel = [0.0] * len(self._travel)
        for group in self.groups:
            group.free_travel = -1.0
        self._clear = self._slack = -1.0

    def follow(self, everyone: Sequence[ArmState]) -> None:
        """Set the states from which all later searches read positions and speeds.

        Args:
            everyone: States of all arms, those of the controllet first.
        """
        self._everyone = everyone
        self._sources = [state.q_dq for state in everyone]
        if self._objects.size:
            self._sources.append(self._objects)

    def find(self, ahead: float = 0.0) -> list[Pair]:
        """Return the pairs of solids on which braking or repulsion may act now.

        Args:
            ahead: Distance below which pairs are returned at any speed, for references ahead of
                their arms [m]. It does not apply to pairs that may touch.
        """
        self._min = max(self._distance, min(ahead, self.MAX_PAIR_DISTANCE))
        change = self._change
        concatenate(self._sources, out=self._now)
        if self._n_objects and self._grasp_changed():
            self._update_grasps()
        absolute(subtract(self._now, self._before, change), change)
        step, faster, turned = change.dot(self._sums, self._bent).tolist()
        faster += self._bend * turned
        if (
            self._clear - step >= self._min
            and faster <= RECHECK_SPEED_CHANGE
            and step + self._steepness * faster <= self._slack
        ):
            return self._empty
        return self._check_groups(change.dot(self._weights).tolist()[: self._bodies])

    def _check_groups(self, steps: Sequence[float]) -> list[Pair]:
        scene, travel, reach, min_value = self.scene, self._travel, self._reach, self._min
        self._add_travel(steps)
        self._update_placements()
        near: list[tuple[Group, float]] = []
        clear = slack = math.inf
        fastest = 0.0
        for group, speed in zip(self.groups, self._speeds()):
            total, within = travel[group.first], group.first == group.second
            # For two links of one arm, the travel of the arm already bounds their relative motion.
            if not within:
                total += travel[group.second]
            far = reach(speed)
            if far > self.MAX_PAIR_DISTANCE:
                far = self.MAX_PAIR_DISTANCE
            matters = far if far > min_value else min_value
            left = group.free_travel - total
            if left < matters:
                left = group.measure(scene.model, scene.data, matters)
                group.free_travel = total + left
                if left < matters:
                    near.append((group, matters))
                else:  # No pair of the group is near.
                    group.near_distances = [self._distance] * len(group.near_distances)
            if left < clear:
                clear = left
            # ``find`` counts the speed change of each body once. Two links of one arm may both
            # become faster by it, so only half of the distance is available.
            distance = 0.5 * (left - far) if within else left - far
            if distance < slack:
                slack = distance
            if speed > fastest:
                fastest = speed
        self._clear, self._slack = clear, slack
        self._steepness = (
            0.5
            * (reach(fastest + 2.0 * RECHECK_SPEED_CHANGE) - reach(fastest))
            / RECHECK_SPEED_CHANGE
        )
        if not near:
            return self._empty
        return self._pairs.find(near, self._everyone, self._distance, self._min, self._fastest)

    def _speeds(self) -> list[float]:
        size, width = absolute(self._now), self.scene.joint_count
        bounds = size.dot(self._weights)[self._bodies :]
        self._bend = self._farthest * max(self._arms(size)[:, width:].dot(self._ones).tolist())
        # ``bounds`` are upper bounds of the speed of each body, from the joint speeds. Grasped
        # objects have no other speed. Two links of one arm approach each other no faster than the
        # bound of the arm, which may be below the sum of their speeds.
        every = concatenate((self.scene.speeds(), bounds))
        self._fastest = every.tolist()
        each = every.take(self._link_indices)
        fastest = np.maximum.reduceat(each, self._starts).reshape(-1, 2).dot(_BOTH).tolist()
        max_value = bounds.tolist()
        return [
            speed if group.first != group.second else min(speed, max_value[group.first])
            for group, speed in zip(self.groups, fastest)
        ]

    def _arms(self, values: Vector) -> Matrix:
        both = 2 * self.scene.joint_count
        return values[: both * self._n_arms].reshape(-1, both)

    def _update_placements(self) -> None:
        raw, width = self.scene.raw, self.scene.joint_count
        joints = width * self._n_arms
        raw[:joints].reshape(-1, width)[:] = self._arms(self._now)[:, :width]
        raw[joints:] = self._now[2 * joints :]
        self._now.take(self._speed_order, out=self.scene.v[: len(self._speed_order)])
        self.scene.update_placements()
