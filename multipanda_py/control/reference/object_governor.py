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
        return np.zeros(6)  # A grasp starts at rest.

    def _feasible_fractions(self, acceleration: Vector, twist: Vector) -> FeasibleFractions:
        possible = FeasibleFractions()
        for index, (state, (_, rotation)) in enumerate(zip(self._states, self._bases)):
            lever = self._hand_position(index) - self._point
            accelerations, speeds = (
                _hand_twist(pair, lever, rotation) for pair in (acceleration, twist)
            )
            one = tool_scales(state, accelerations, speeds, self._params.limit_scale)
            possible = possible.within(one)
        return possible

    def _start(self, cycles: int, period: float, min_speed: float) -> None:
        rotation, centre = self._rotation.T, self._position
        self._grasps = [
            rotation @ (self._hand_position(index) - centre) for index in range(len(self._states))
        ]
        super()._start(cycles, period, min_speed)

    def _hand_position(self, arm_index: int) -> Vector:
        position, rotation = self._bases[arm_index]
        hand: Vector = position + rotation @ self._states[arm_index].position_ee_in_base
        return hand

    def _path_ahead(self, position: Sequence[float]) -> tuple[float, float]:
        # Maximum over all end effectors: distance from the reference [m], reference speed [m/s].
        ahead = lever = 0.0
        for index, grasp in enumerate(self._grasps):
            displacement = position + dot(self._frame, grasp) - self._hand_position(index)
            ahead = max(ahead, math.hypot(*displacement.tolist()))
            lever = max(lever, math.hypot(*grasp.tolist()))
        turning = lever * math.hypot(*self._angular.output_velocity)
        return ahead, math.hypot(*self._linear.output_velocity) + turning

    def _allowed_fraction(
        self, twist: Vector, position: Sequence[float], rotation: Matrix
    ) -> float:
        scale, ahead = 1.0, np.zeros(6)
        for index, (state, (_, base)) in enumerate(zip(self._states, self._bases)):
            hand = self._hand_position(index)
            ahead[:3] = base.T @ (position + rotation @ self._grasps[index] - hand)
            speeds = tool_motion(state, _hand_twist(twist, hand - position, base))
            scale = min(scale, self._velocity_scale(index, speeds, tool_motion(state, ahead)))
        return scale


def _hand_twist(twist: Vector, lever: Vector, rotation: Matrix) -> Vector:
    # ``twist`` and ``lever`` are in the world; the result is along the base axes.
    (ax, ay, az), (x, y, z) = twist[3:].tolist(), lever.tolist()
    turning = ay * z - az * y, az * x - ax * z, ax * y - ay * x
    linear = twist[:3] + turning
    return np.concatenate([rotation.T @ linear, rotation.T @ twist[3:]])
