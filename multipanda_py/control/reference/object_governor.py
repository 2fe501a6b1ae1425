# SPDX-License-Identifier: Apache-2.0
"""Reference governor of the target pose of an object that several arms hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy import dot

from multipanda_py.context import Context
from multipanda_py.control.reference.governor_base import FeasibleFractions
from multipanda_py.control.reference.pose_governor import PoseGovernor, tool_motion, tool_scales
from multipanda_py.state import ArmState, Matrix, Vector


class ObjectGovernor(PoseGovernor):
    """Governor of the target pose of an object that several arms move as one body.

    The arm with the lowest torque and speed reserve limits the motion of the object. The mass of
    the object is not considered.

    Args:
        record: Array of target position (3) [m] and rotation matrix (9) of the object in the
            world, which the governor overwrites with the reference.
        context: Context of the controllet, with the base pose of each arm.
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

    def _possible_of(self, acceleration: Vector, twist: Vector) -> FeasibleFractions:
        """Return the fractions of an acceleration and of a twist that all arms can follow."""
        possible = FeasibleFractions()
        for index, (state, (_, rotation)) in enumerate(zip(self._states, self._bases)):
            lever = self._hand(index) - self._point
            accelerations, speeds = (
                _at_hand(pair, lever, rotation) for pair in (acceleration, twist)
            )
            one = tool_scales(state, accelerations, speeds, self._params.limit_scale)
            possible = possible.within(one)
        return possible

    def _start(self, cycles: int, period: float, min_speed: float) -> None:
        """Start at rest, with the current grasp positions of the end effectors on the object."""
        rotation, centre = self._rotation.T, self._position
        self._grasps = [
            rotation @ (self._hand(index) - centre) for index in range(len(self._states))
        ]
        super()._start(cycles, period, min_speed)

    def _hand(self, arm_index: int) -> Vector:
        """Return the position of an end effector in the world, (3,) [m]."""
        position, rotation = self._bases[arm_index]
        hand: Vector = position + rotation @ self._states[arm_index].position_ee_in_base
        return hand

    def _path_ahead(self, position: Sequence[float]) -> tuple[float, float]:
        """Return the maximum distance [m] and speed [m/s] of the end-effector references.

        The distance is that of an end effector from its reference.

        Args:
            position: Reference position of the object, (3,) [m].
        """
        ahead = lever = 0.0
        for index, grasp in enumerate(self._grasps):
            displacement = position + dot(self._frame, grasp) - self._hand(index)
            ahead = max(ahead, math.hypot(*displacement.tolist()))
            lever = max(lever, math.hypot(*grasp.tolist()))
        turning = lever * math.hypot(*self._angular.output_velocity)
        return ahead, math.hypot(*self._linear.output_velocity) + turning

    def _allowed(self, twist: Vector, position: Sequence[float], rotation: Matrix) -> float:
        """Return the fraction of an object twist that the features in ``pacers`` allow, 0 to 1."""
        scale, ahead = 1.0, np.zeros(6)
        for index, (state, (_, base)) in enumerate(zip(self._states, self._bases)):
            hand = self._hand(index)
            ahead[:3] = base.T @ (position + rotation @ self._grasps[index] - hand)
            speeds = tool_motion(state, _at_hand(twist, hand - position, base))
            scale = min(scale, self._pace(index, speeds, tool_motion(state, ahead)))
        return scale


def _at_hand(twist: Vector, lever: Vector, rotation: Matrix) -> Vector:
    """Return the twist of an end effector along its base axes, for a twist of the object, (6,).

    Args:
        twist: Twist of the object in the world, (6,) [m/s, rad/s].
        lever: Vector from the object to the end effector in the world, (3,) [m].
        rotation: Rotation of the arm's base in the world, (3, 3).
    """
    (ax, ay, az), (x, y, z) = twist[3:].tolist(), lever.tolist()
    turning = ay * z - az * y, az * x - ax * z, ax * y - ay * x
    linear = twist[:3] + turning
    return np.concatenate([rotation.T @ linear, rotation.T @ twist[3:]])
