# SPDX-License-Identifier: Apache-2.0
"""Where a tool is led without a plan: straight on, with what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from multipanda_py.pose import Pose

SPEED, TURN_SPEED = 0.07, 0.35
"""Of what is led, at most [m/s], [rad/s]: slower than the law lets its pose go by default."""


@dataclass(frozen=True, eq=False)
class Lead:
    """The straight way of a thing or a tool, and the tool that goes with it.

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
        return self.begin.between(self.end, share) @ self.tool
