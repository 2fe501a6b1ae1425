# SPDX-License-Identifier: Apache-2.0
"""Task in which one or two tools reach points in the air."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_GOAL_TOLERANCE = 0.01
"""Distance at which a goal counts as reached [m]."""
_LOW, _HIGH = np.array([0.35, -0.25, 0.25]), np.array([0.65, 0.25, 0.6])
"""Bounds of the goals relative to the base of the arm [m]."""


class Reach(GymTask):
    """Motion of one tool to one point."""

    arms = {"arm": {"gripper": False}}
    goal_size = 3
    seconds = 5.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Draw a point in the world frame for each arm."""
        bases = [scene.cell.descriptions[arm].position_base_in_world for arm in self.arms]
        return np.concatenate([base + random.uniform(_LOW, _HIGH) for base in bases])

    def _distances(self, scene: TaskScene) -> list[float]:
        goals = scene.goal.reshape(-1, 3)
        return [
            scene.distance(scene.tool(arm).position, goal)
            for arm, goal in zip(self.arms, goals, strict=True)
        ]

    def reward(self, scene: TaskScene) -> float:
        """Return the mean proximity of the tools to their goals."""
        return float(np.mean([closeness(one, 0.2) for one in self._distances(scene)]))

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if every tool is within 1 cm of its goal."""
        return max(self._distances(scene)) < _GOAL_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Move to the goals with constant orientation."""
        goals = scene.goal.reshape(-1, 3)
        return {
            arm: (scene.tool(arm).at(goal), 1.0)
            for arm, goal in zip(self.arms, goals, strict=True)
        }


class ReachTwo(Reach):
    """Motion of two tools to two points."""

    arms = {
        "left": {"position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"position": [0.0, -0.4, 0.0], "gripper": False},
    }
    goal_size = 6
