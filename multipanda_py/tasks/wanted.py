# SPDX-License-Identifier: Apache-2.0
"""Goals of a subtask as they are when it begins."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector
from multipanda_py.tasks.contact_points import ContactPoint
from multipanda_py.tasks.sections import Subtask
from multipanda_py.tasks.seen import TOOL, Seen


@dataclass(frozen=True, eq=False)
class GoalPlace:
    """Where a frame is to be in another one; None for what nobody asks for.

    Attributes:
        frame: ``ARM/tool`` or a thing.
        base: The frame that the numbers are in.
        position: (3,) [m].
        rotation: (3, 3).
        direction: Of its z axis, (3,), unit.
    """

    frame: str
    base: str
    position: Vector | None = None
    rotation: Matrix | None = None
    direction: Vector | None = None

    def errors(self, seen: Seen) -> tuple[float, float]:
        """Return how far it is from there [m], [rad]."""
        here = seen.pose(self.base).inverse() @ seen.pose(self.frame)
        distance = angle = 0.0
        if self.position is not None:
            distance = float(np.linalg.norm(here.position - self.position))
        if self.rotation is not None:
            _, angle = Pose(here.position, self.rotation).distance(here)
        if self.direction is not None:
            cosine = float(here.rotation[:, 2] @ self.direction)
            angle = max(angle, math.acos(max(-1.0, min(1.0, cosine))))
        return distance, angle

    def in_world(self, seen: Seen) -> Pose:
        """Return the pose in the world; what nobody asks for stays as it is."""
        base = seen.pose(self.base)
        here = base.inverse() @ seen.pose(self.frame)
        position = here.position if self.position is None else self.position
        rotation = here.rotation if self.rotation is None else self.rotation
        return base @ Pose(position, rotation)


def wanted(subtask: Subtask, points: Sequence[ContactPoint], seen: Seen) -> list[GoalPlace]:
    """Return the goals of a subtask, those in front of its contacts included.

    Args:
        subtask: Of a checked task.
        points: Of its contacts.
        seen: Where things are when it begins.
    """
    found = list(_given(subtask, seen))
    if subtask.force == 0.0:
        found += [
            GoalPlace(
                point.arm + TOOL,
                point.thing,
                point.point - subtask.distance * point.inward,
                direction=point.inward,
            )
            for point in points
        ]
    return found


def _given(subtask: Subtask, seen: Seen) -> Iterator[GoalPlace]:
    for goal in subtask.goals:
        position, direction = None, None
        if goal.position is not None:
            position = np.array(goal.position)
        elif goal.by is not None:
            here = seen.pose(goal.base).inverse() @ seen.pose(goal.frame)
            position = here.position + goal.by
        if goal.points is not None:
            direction = np.array(goal.points) / np.linalg.norm(goal.points)
        rotation = None
        if goal.rpy is not None:
            rotation = Pose.from_rpy(np.zeros(3), goal.rpy).rotation
        elif direction is None and not goal.frame.endswith(TOOL):  # a full box is not to lean
            rotation = (seen.pose(goal.base).inverse() @ seen.pose(goal.frame)).rotation
        yield GoalPlace(goal.frame, goal.base, position, rotation, direction)
