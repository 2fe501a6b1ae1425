# SPDX-License-Identifier: Apache-2.0
"""Bring one tool, or two at once, to points in the air."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_NEAR = 0.01
"""Distance at which a tool is there [m]."""
_LOW, _HIGH = np.array([0.35, -0.25, 0.25]), np.array([0.65, 0.25, 0.6])
"""Where goals of an arm are, from its base [m]."""


class Reach(GymTask):
    """One tool to one point."""

    arms = {"arm": {"hand": False}}
    goal_size = 3
    seconds = 5.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Draw a point for each arm, in the world."""
        bases = [scene.cell.descriptions[arm].position_base_in_world for arm in self.arms]
        return np.concatenate([base + random.uniform(_LOW, _HIGH) for base in bases])

    def _distances(self, scene: TaskScene) -> list[float]:
        goals = scene.goal.reshape(-1, 3)
        return [
            scene.distance(scene.tool(arm).position, goal)
            for arm, goal in zip(self.arms, goals, strict=True)
        ]

    def reward(self, scene: TaskScene) -> float:
        """Return how near the tools are, the mean of them."""
        return float(np.mean([closeness(one, 0.2) for one in self._distances(scene)]))

    def is_done(self, scene: TaskScene) -> bool:
        """Return whether every tool is within a centimetre."""
        return max(self._distances(scene)) < _NEAR

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Go there, turned as the tools are."""
        goals = scene.goal.reshape(-1, 3)
        return {
            arm: (scene.tool(arm).at(goal), 1.0)
            for arm, goal in zip(self.arms, goals, strict=True)
        }


class ReachTwo(Reach):
    """Two tools to two points."""

    arms = {
        "left": {"position": [0.0, 0.4, 0.0], "hand": False},
        "right": {"position": [0.0, -0.4, 0.0], "hand": False},
    }
    goal_size = 6
