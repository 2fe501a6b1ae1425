# SPDX-License-Identifier: Apache-2.0
"""Task in which two arms stack two bricks."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import DOWN, TABLE, TOP, TaskScene, turned
from multipanda_py.learning.gym.tasks.pick_and_place import grasp_and_carry
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_HALF_EDGES = np.array([0.03, 0.02, 0.02])
_BRICK = {"shape": "box", "size": _HALF_EDGES.tolist(), "mass": 0.06, "friction": 1.0}
_GOAL_TOLERANCE = 0.012  # Tolerance of the position of the upper brick [m].
# Maximum opening of a gripper that holds a brick, from 0 (closed) to 1 (open).
_MAX_GRASP_OPENING = 0.62
_ASIDE_POSITIONS = {
    "left": np.array([0.4, 0.3, TOP + 0.25]),
    "right": np.array([0.4, -0.3, TOP + 0.25]),
}


class StackBricks(GymTask):
    """Stack of two bricks: the left arm places the lower one, the right arm the upper one."""

    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    objects = {
        "table": TABLE,
        "lower": {
            **_BRICK,
            "position": [0.5, 0.2, TOP + _HALF_EDGES[2]],
            "rgba": [0.2, 0.5, 0.8, 1.0],
        },
        "upper": {
            **_BRICK,
            "position": [0.5, -0.2, TOP + _HALF_EDGES[2]],
            "rgba": [0.9, 0.6, 0.1, 1.0],
        },
    }
    goal_size = 3
    seconds = 30.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the bricks. The goal is the centre of the lower one."""
        for name, side in (("lower", 1.0), ("upper", -1.0)):
            at = random.uniform([0.45, 0.16], [0.55, 0.24]) * [1.0, side]
            scene.place(
                name,
                Pose(np.array([*at, TOP + _HALF_EDGES[2]]), turned(random.uniform(-0.4, 0.4))),
            )
        self._phase = 0
        return np.array([0.5, 0.0, TOP + _HALF_EDGES[2]])

    _phase = 0

    def _off(self, scene: TaskScene) -> tuple[float, float]:
        """Return the distances of the lower and the upper brick from their goals [m]."""
        lower, upper = scene.thing("lower").position, scene.thing("upper").position
        on_top = lower + [0.0, 0.0, 2.0 * _HALF_EDGES[2]]
        return scene.distance(lower, scene.goal), scene.distance(upper, on_top)

    def reward(self, scene: TaskScene) -> float:
        """Return the proximity of the bricks to their goals."""
        lower, upper = self._off(scene)
        return 0.5 * closeness(lower, 0.1) + 0.5 * closeness(upper, 0.1) * closeness(lower, 0.05)

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if the bricks are stacked and both grippers are open."""
        lower, upper = self._off(scene)
        let_go = all(scene.opening(arm) > _MAX_GRASP_OPENING for arm in self.arms)
        return let_go and lower < 2.0 * _GOAL_TOLERANCE and upper < _GOAL_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Place the lower brick, retreat, and place the upper one."""
        lower, upper = scene.thing("lower").position, scene.thing("upper").position
        aside = {arm: (Pose(at, DOWN), 1.0) for arm, at in _ASIDE_POSITIONS.items()}
        on_top = lower + [0.0, 0.0, 2.0 * _HALF_EDGES[2] + 0.002]
        if self._phase == 0:
            done = scene.distance(lower, scene.goal + [0.0, 0.0, 0.004]) < 0.006
            self._phase += done
            left = self._bring(scene, "left", "lower", scene.goal + [0.0, 0.0, 0.004])
            return aside | {"left": left}
        if self._phase == 1:
            self._phase += scene.tool("left").position[1] > 0.2
            return aside | {"left": self._leave(scene, "left")}
        if self._phase == 2:
            self._phase += scene.distance(upper, on_top) < 0.006
            return aside | {"right": self._bring(scene, "right", "upper", on_top)}
        return aside | {"right": self._leave(scene, "right")}

    def _bring(
        self, scene: TaskScene, arm: str, object_name: str, goal: Vector
    ) -> tuple[Pose, float]:
        """Carry a brick above its goal, then down."""
        at = scene.thing(object_name).position
        over = goal + [0.0, 0.0, 0.08]
        is_over = scene.distance(at[:2], goal[:2]) < 0.006
        return grasp_and_carry(
            scene, arm, object_name, goal if is_over else over, _MAX_GRASP_OPENING
        )

    def _leave(self, scene: TaskScene, arm: str) -> tuple[Pose, float]:
        """Open the gripper, move up, then aside."""
        tool = scene.tool(arm)
        if scene.opening(arm) < 0.9:
            return tool, 1.0
        if tool.position[2] < TOP + 0.15:
            return tool.at(tool.position + [0.0, 0.0, 0.1]), 1.0
        return Pose(_ASIDE_POSITIONS[arm], DOWN), 1.0
