# SPDX-License-Identifier: Apache-2.0
"""How the distance of near bodies changes, and by which joints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pinocchio as pin

from multipanda_py.dynamics.collision_geometry import CollisionGeometry
from multipanda_py.dynamics.collision_groups import Group
from multipanda_py.state import ArmState, Vector

SURELY = 1.0 + 1e-9
"""Times a bound, so that rounding does not make it less."""


class Pair:
    """Two solids that are near.

    Attributes:
        distance: Between their surfaces [m].
        rate: Its derivative, by all joints of both bodies [m/s].
        begin: From where it counts as near [m]: less for a pair that was nearer at the start.
        arms: Numbers of the arms that move one or both of them.
        gradients: Derivative of the distance by their joints, (n,) [m/rad] each.
        is_near: Whether it matters for the bodies themselves, or only for what is ahead of them.
        place: Its group, and its number there.
    """

    __slots__ = ("arms", "begin", "distance", "gradients", "is_near", "place", "rate")

    def __init__(
        self, distance: float, rate: float, begin: float, is_near: bool, place: tuple[Group, int]
    ) -> None:
        self.distance, self.rate, self.begin, self.is_near = distance, rate, begin, is_near
        self.place = place
        self.arms: list[int] = []
        self.gradients: list[Vector] = []

    def __str__(self) -> str:
        group, number = self.place
        return " and ".join(map(str, group.solids[number]))


class NearPairs:
    r"""Look at the pairs of groups that have been measured, at their true rate.

    .. math::
        \dot d = w^T (V_2 - V_1), \qquad w = \begin{bmatrix} n \\ p \times n \end{bmatrix}

    with V the twists of both links at the world's origin, n the normal from the first solid
    to the second and p a closest point. Objects count as being at rest, but for those that a hand
    holds: they move with it.

    Args:
        scene: Where everything is; its data are those of the last placing.
        reach: Distance from which a pair matters [m], for an approach speed [m/s].

    Thread: control.
    """

    def __init__(self, scene: CollisionGeometry, reach: Callable[[float], float]) -> None:
        self._scene, self._reach = scene, reach
        # Twists of the links at the world's origin, of every arm's joints; before them, at rest.
        self._twists = np.zeros((len(scene.joints), scene.room + 1, 6))
        pin.computeJointJacobians(scene.model, scene.data, scene.q)
        jacobian = scene.data.J.reshape(6, -1)  # a vector where there is one joint in all
        self._jacobians = [jacobian[:, joints] for joints in scene.joints]
        # Columns of the arms' joints, and none for joint 0, which is fixed.
        self._columns = [
            [j[:, :count] for count in range(j.shape[1] + 1)] for j in self._jacobians
        ]

    def find(
        self,
        near: Sequence[tuple[Group, float]],
        everyone: Sequence[ArmState],
        distance_at_rest: float,
        least: float,
        speeds: Sequence[float],
    ) -> list[Pair]:
        """Return the pairs that matter.

        Args:
            near: Groups that have been measured, each with the distance from which it matters [m].
            everyone: States of all arms.
            distance_at_rest: From which pairs matter at rest [m].
            least: Up to which they matter in any case, for what is ahead of the arms [m].
            speeds: What no point of any link is faster than, at the places of groups [m/s].
        """
        found: list[Pair] = []
        twist_of: list[list[list[float]]] = []  # which the first pair that may matter asks for
        for group, matters in near:
            in_any_case = least if group.is_foreseen else -math.inf
            for index, result in enumerate(group.results):
                distance = result.min_distance
                if distance >= matters:
                    continue
                begin = group.begins[index]
                if distance > begin:
                    group.begins[index] = begin = min(distance, distance_at_rest)
                first, second = group.places[index]
                fastest = SURELY * (speeds[first] + speeds[second])
                if distance >= max(begin, in_any_case, self._reach(fastest)):
                    continue  # its rate, which costs most, is no more than that
                twist_of = twist_of or self._twists_of(everyone)
                wrench, rate, joints = _unit_wrench(result), 0.0, group.pairs[index]
                if joints[0]:
                    rate -= _product(wrench, twist_of[group.movers[0]][joints[0]])
                if joints[1]:
                    rate += _product(wrench, twist_of[group.movers[1]][joints[1]])
                is_near = distance < max(begin, self._reach(-rate))
                if is_near or distance < in_any_case:
                    pair = Pair(distance, rate, begin, is_near, (group, index))
                    found.append(self._pair(group, joints, wrench, pair))
        return found

    def _twists_of(self, everyone: Sequence[ArmState]) -> list[list[list[float]]]:
        """Return the twists of all links at the world's origin, by body and joint."""
        scene = self._scene
        pin.computeJointJacobians(scene.model, scene.data)
        for jacobian, twists, state in zip(self._jacobians, self._twists, everyone):
            np.cumsum((jacobian * state.dq).T, axis=0, out=twists[1 : 1 + state.n_joints])
        found: list[list[list[float]]] = self._twists.tolist()
        return found

    def _pair(
        self, group: Group, joints: tuple[int, int], wrench: list[float], pair: Pair
    ) -> Pair:
        """Add the gradients to a pair."""
        for arm, joint, sign in zip(group.movers, joints, (-1.0, 1.0)):
            if not joint:
                continue
            moment = np.array(wrench) * sign
            if arm in pair.arms:
                gradient = pair.gradients[pair.arms.index(arm)]
            else:
                gradient = np.zeros(self._jacobians[arm].shape[1])
                pair.arms.append(arm)
                pair.gradients.append(gradient)
            gradient[:joint] += moment.dot(self._columns[arm][joint])
        return pair


def _unit_wrench(result: Any) -> list[float]:
    """Return a unit force along the normal at the closest point, as seen at the origin, (6,)."""
    nx, ny, nz = result.normal.tolist()
    px, py, pz = result.getNearestPoint1().tolist()
    return [nx, ny, nz, py * nz - pz * ny, pz * nx - px * nz, px * ny - py * nx]


def _product(w: list[float], v: list[float]) -> float:
    return w[0] * v[0] + w[1] * v[1] + w[2] * v[2] + w[3] * v[3] + w[4] * v[4] + w[5] * v[5]
