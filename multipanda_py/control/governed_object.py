# SPDX-License-Identifier: Apache-2.0
"""The pose of an object that follows a goal as fast as the arms that hold it can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.governed_pose import GovernedPose, tool_shares
from multipanda_py.state import ArmState, Vector

_dot = np.dot


class GovernedObject(GovernedPose):
    """Shape the target pose of an object that several hands move as one body.

    Every hand has the object's acceleration and, by its lever, that of its turning; the arm
    that can follow least bounds them all. What the object itself weighs is not known here.

    Args:
        record: Position (3) [m] and rotation matrix (9) in the world.
        context: Where the arms stand.
        states: The arms.
    """

    def __init__(self, record: Vector, context: Context, states: Sequence[ArmState]) -> None:
        super().__init__(record, None, states[0])
        self._states = list(states)
        self._bases = list(zip(context.positions_base_in_world, context.rotations_base_in_world))

    def _measured_twist(self) -> Vector:
        """Return rest: a grasp begins with what the hands hold still."""
        return np.zeros(6)

    def _shares(self, acceleration: Vector, twist: Vector) -> tuple[float, float]:
        """Return what every arm can follow."""
        p = self._params
        harder = faster = 1.0
        for state, (position, rotation) in zip(self._states, self._bases):
            lever = position + rotation @ state.position_ee_in_base - self._point
            accelerations, speeds = (
                np.concatenate(
                    [
                        rotation.T @ (pair[:3] + np.cross(pair[3:], lever)),
                        rotation.T @ pair[3:],
                    ]
                )
                for pair in (acceleration, twist)
            )
            shares = tool_shares(state, accelerations, speeds, p.share, p.smoothing)
            harder, faster = min(harder, shares[0]), min(faster, shares[1])
        return harder, faster
