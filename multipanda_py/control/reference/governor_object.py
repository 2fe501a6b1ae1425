# SPDX-License-Identifier: Apache-2.0
"""Governed target pose of an object that several arms hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.reference.governor import Possible
from multipanda_py.control.reference.governor_pose import GovernedPose, tool_motion, tool_shares
from multipanda_py.state import ArmState, Matrix, Vector

_dot = np.dot


class GovernedObject(GovernedPose):
    """Governed target pose of an object that several arms move as one body.

    Each end effector has the acceleration of the object plus that of the rotation about its
    origin. The arm with the lowest feasible fraction bounds the motion. The mass of the object is
    unknown here.

    Args:
        record: Position (3) [m] and rotation matrix (9) of the object in the world.
        context: Context of the controllet with the poses of the bases.
        states: States of the arms.
    """

    def __init__(self, record: Vector, context: Context, states: Sequence[ArmState]) -> None:
        super().__init__(record, None, states[0])
        self._states = list(states)
        self._grasps = [np.zeros(3) for _ in states]
        self._bases = list(zip(context.positions_base_in_world, context.rotations_base_in_world))

    def _measured_twist(self) -> Vector:
        """Return zero, because a grasp starts at rest."""
        return np.zeros(6)

    def _possible_of(self, acceleration: Vector, twist: Vector) -> Possible:
        """Return the fractions of acceleration and twist, (6,) each, that all arms can follow."""
        possible = Possible()
        for place, (state, (_, rotation)) in enumerate(zip(self._states, self._bases)):
            lever = self._hand(place) - self._point
            accelerations, speeds = (
                _at_hand(pair, lever, rotation) for pair in (acceleration, twist)
            )
            one = tool_shares(state, accelerations, speeds, self._params.share)
            possible = possible.within(one)
        return possible

    def _begin(self, cycles: int, period: float, least: float) -> None:
        """Store the grasp positions of the end effectors in the object frame."""
        turn, centre = self._rotation.T, self._position
        self._grasps = [turn @ (self._hand(place) - centre) for place in range(len(self._states))]
        super()._begin(cycles, period, least)

    def _hand(self, place: int) -> Vector:
        """Return the position of an end effector in the world, (3,) [m]."""
        position, rotation = self._bases[place]
        hand: Vector = position + rotation @ self._states[place].position_ee_in_base
        return hand

    def _way_ahead(self, position: Sequence[float]) -> tuple[float, float]:
        """Return maximum distance [m] and speed [m/s] of the end effectors to the reference."""
        ahead = lever = 0.0
        for place, grasp in enumerate(self._grasps):
            way = position + _dot(self._frame, grasp) - self._hand(place)
            ahead = max(ahead, math.hypot(*way.tolist()))
            lever = max(lever, math.hypot(*grasp.tolist()))
        turning = lever * math.hypot(*self._angular.rate)
        return ahead, math.hypot(*self._linear.rate) + turning

    def _allowed(self, twist: Vector, position: Sequence[float], rotation: Matrix) -> float:
        """Return the fraction of the object's twist that all pacers allow, 0 to 1.

        Args:
            twist: Twist of the object in the world, (6,) [m/s, rad/s].
            position: Position of the object in the world, (3,) [m].
            rotation: Rotation of the object in the world, (3, 3).
        """
        share, ahead = 1.0, np.zeros(6)
        for place, (state, (_, base)) in enumerate(zip(self._states, self._bases)):
            hand = self._hand(place)
            ahead[:3] = base.T @ (position + rotation @ self._grasps[place] - hand)
            speeds = tool_motion(state, _at_hand(twist, hand - position, base))
            share = min(share, self._pace(place, speeds, tool_motion(state, ahead)))
        return share


def _at_hand(twist: Vector, lever: Vector, rotation: Matrix) -> Vector:
    """Return the object's twist at an end effector along the axes of the arm's base, (6,).

    Args:
        twist: Twist of the object in the world, (6,) [m/s, rad/s].
        lever: Vector from the object to the end effector in the world, (3,) [m].
        rotation: Rotation of the arm's base in the world, (3, 3).
    """
    (ax, ay, az), (x, y, z) = twist[3:].tolist(), lever.tolist()
    turning = ay * z - az * y, az * x - ax * z, ax * y - ay * x
    linear = twist[:3] + turning
    return np.concatenate([rotation.T @ linear, rotation.T @ twist[3:]])
