# SPDX-License-Identifier: Apache-2.0
"""Task in which a puck is pushed over a table to a goal."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import DOWN, ROD, TABLE, TOP, TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_HALF_HEIGHT = 0.02
"""Half height of the puck [m]."""
_GOAL_TOLERANCE = 0.02  # Maximum distance of the puck from its goal at the end [m].
_PUSH_DISTANCE = 0.075
"""Distance from the centre of the puck at which the rod starts to push [m]."""


class PushPuck(GymTask):
    """Pushing of a 300 g puck to a goal with a rod."""

    arms = {"arm": {"gripper": False, "tool": ROD}}
    objects = {
        "table": TABLE,
        "puck": {"shape": "cylinder", "size": [0.04, _HALF_HEIGHT],
                 "position": [0.45, 0.0, TOP + _HALF_HEIGHT],
                 "mass": 0.3, "friction": 0.4, "rgba": [0.2, 0.5, 0.8, 1.0]},
    }  # fmt: skip
    goal_size = 2
    seconds = 15.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the puck and draw a goal at a distance of 10 to 18 cm."""
        at = random.uniform([0.42, -0.12], [0.54, 0.12])
        scene.place("puck", Pose(np.array([*at, TOP + _HALF_HEIGHT]), np.eye(3)))
        direction, distance = random.uniform(-1.2, 1.2), random.uniform(0.1, 0.18)
        return at + distance * np.array([np.cos(direction), np.sin(direction)])

    def _left(self, scene: TaskScene) -> float:
        return scene.distance(scene.thing("puck").position[:2], scene.goal)

    def reward(self, scene: TaskScene) -> float:
        """Return the proximity of the puck to its goal, with a small part for rod and puck."""
        rod = scene.distance(scene.tool("arm").position, scene.thing("puck").position)
        return 0.8 * closeness(self._left(scene), 0.1) + 0.2 * closeness(rod - 0.05, 0.2)

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if the puck is within 2 cm of its goal."""
        return self._left(scene) < _GOAL_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Lower the rod behind the puck and push along the line to the goal."""
        puck, tool = scene.thing("puck").position[:2], scene.tool("arm").position
        displacement = scene.goal - puck
        displacement = displacement / max(float(np.linalg.norm(displacement)), 1e-9)
        behind = puck - _PUSH_DISTANCE * displacement
        low, high = TOP + _HALF_HEIGHT, TOP + 0.1
        off = tool[:2] - puck
        is_behind = (
            float(off @ displacement) < 0.0
            and abs(float(off[0] * displacement[1] - off[1] * displacement[0])) < 0.02
        )
        if is_behind and tool[2] < low + 0.015:
            goal = np.array([*(puck - 0.02 * displacement), low])
        elif scene.distance(tool[:2], behind) < 0.012:
            goal = np.array([*behind, low])
        else:
            goal = np.array([*behind, high])
        return {"arm": (Pose(goal, DOWN), 1.0)}
