# SPDX-License-Identifier: Apache-2.0
"""Turn one tool's motion into a pose for another tool."""

from __future__ import annotations

import numpy as np

from multipanda_py.state import Matrix, Vector

_dot, _add, _multiply, _subtract = np.dot, np.add, np.multiply, np.subtract


class MotionMapping:
    r"""Carry the leader's motion since both were coupled over to the follower.

    .. math::
        p_F = p_{F0} + \alpha\, C (p_L - p_{L0}), \qquad
        R_F = C\, R_L R_{L0}^T\, C^T R_{F0}, \qquad C = {}^{w}R_F^T \; {}^{w}R_L

    Poses are in each arm's own base; C turns the axes of the leader's base into those of the
    follower's, so that motion is the same along the axes of the world, wherever the bases
    stand. Only translation is scaled, by alpha.

    Args:
        rotation_leader_in_world: Orientation of the leader's base, (3, 3).
        rotation_follower_in_world: Orientation of the follower's base, (3, 3).

    Attributes:
        turn: C, (3, 3).
        position: Where the follower should be, in its base, (3,) [m].
        rotation: How it should be turned, (3, 3).
        twist: How it should move, (6,) [m/s, rad/s].

    Thread: control.
    """

    def __init__(
        self, rotation_leader_in_world: Matrix, rotation_follower_in_world: Matrix
    ) -> None:
        self.turn: Matrix = rotation_follower_in_world.T @ rotation_leader_in_world
        self.position, self.rotation, self.twist = np.zeros(3), np.eye(3), np.zeros(6)
        self._linear, self._angular = self.twist[:3], self.twist[3:]
        self._scaled = self.turn.copy()
        self._scale = 1.0
        self._leader, self._follower = np.zeros(3), np.zeros(3)
        self._grip, self._half, self._moved = np.eye(3), np.zeros((3, 3)), np.zeros(3)

    def couple(
        self,
        position_leader: Vector,
        rotation_leader: Matrix,
        position_follower: Vector,
        rotation_follower: Matrix,
        scale: float,
    ) -> None:
        """Count motion from these poses on, with translation scaled by ``scale``."""
        self._scale = scale
        _multiply(self.turn, scale, self._scaled)
        self._leader[:], self._follower[:] = position_leader, position_follower
        self._grip[:] = rotation_leader.T @ self.turn.T @ rotation_follower

    def follow(self, position: Vector, rotation: Matrix, twist: Vector) -> None:
        """Compute the follower's pose and twist from the leader's, in the leader's base."""
        _subtract(position, self._leader, self._moved)
        _add(self._follower, _dot(self._scaled, self._moved, self.position), self.position)
        _dot(_dot(self.turn, rotation, self._half), self._grip, self.rotation)
        _dot(self._scaled, twist[:3], self._linear)
        _dot(self.turn, twist[3:], self._angular)
