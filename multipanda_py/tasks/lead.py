# SPDX-License-Identifier: Apache-2.0
"""Where a tool is led without a plan: straight on, with what it holds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pinocchio as pin

from multipanda_py.pose import Pose

SPEED, TURN_SPEED = 0.07, 0.35
"""Of what is led, at most [m/s], [rad/s]: slower than the law lets its pose go by default."""


@dataclass(frozen=True, eq=False)
class Lead:
    r"""The straight way of a thing or a tool, and the tool that goes with it.

    .. math:: p(s) = p_0 + s (p_1 - p_0), \qquad R(s) = R_0 \exp(s \log R_0^T R_1)

    Attributes:
        begin: Of what moves, in the world.
        end: Likewise.
        tool: Of the tool, in what moves.
    """

    begin: Pose
    end: Pose
    tool: Pose

    @property
    def time(self) -> float:
        """How long the way takes [s]."""
        distance, angle = self.begin.distance(self.end)
        return max(distance / SPEED, angle / TURN_SPEED)

    def at(self, share: float) -> Pose:
        """Return the pose of the tool in the world after a share of the way, 0 to 1."""
        turn = pin.log3(self.begin.rotation.T @ self.end.rotation)
        way = self.end.position - self.begin.position
        moved = Pose(
            self.begin.position + share * way,
            np.array(self.begin.rotation @ pin.exp3(share * turn)),
        )
        return moved @ self.tool
