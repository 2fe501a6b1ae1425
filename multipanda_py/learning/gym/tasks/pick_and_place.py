# SPDX-License-Identifier: Apache-2.0
"""Pick a cube up and hold it at a place in the air or on the table."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import DOWN, TABLE, TOP, TaskScene, turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_HALF = 0.02
_NEAR = 0.015
_GRASPED = 0.62
"""How far a hand is open at most that has the cube between its fingers."""


class PickAndPlace(GymTask):
    """A cube of 4 cm and 50 g; the hand has to bring it to a point."""

    arms = {"arm": {}}
    objects = {
        "table": TABLE,
        "cube": {"shape": "box", "size": [_HALF] * 3, "position": [0.45, 0.0, TOP + _HALF],
                 "mass": 0.05, "friction": 1.0, "rgba": [0.8, 0.25, 0.2, 1.0]},
    }  # fmt: skip
    goal_size = 3
    seconds = 12.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Put the cube down, turned somehow, and draw a point above the table."""
        at, yaw = random.uniform([0.4, -0.15], [0.55, 0.15]), random.uniform(-0.6, 0.6)
        scene.place("cube", Pose(np.array([*at, TOP + _HALF]), turned(yaw)))
        return random.uniform([0.4, -0.2, TOP + 0.08], [0.58, 0.2, TOP + 0.25])

    def reward(self, scene: TaskScene) -> float:
        """Return how near hand and cube are, then cube and goal."""
        cube = scene.thing("cube").position
        reaching = closeness(scene.distance(scene.tool("arm").position, cube), 0.1)
        return 0.3 * reaching + 0.7 * closeness(scene.distance(cube, scene.goal), 0.15) * reaching

    def is_done(self, scene: TaskScene) -> bool:
        """Return whether the cube is within 15 mm of its point, in the hand."""
        cube = scene.thing("cube").position
        in_hand = scene.distance(scene.tool("arm").position, cube) < 0.03
        return in_hand and scene.distance(cube, scene.goal) < _NEAR

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Go over the cube, down, close, and carry it."""
        return {"arm": grasp_and_carry(scene, "arm", "cube", scene.goal, _GRASPED)}


def grasp_and_carry(
    scene: TaskScene, arm: str, thing: str, goal: Vector, grasped: float
) -> tuple[Pose, float]:
    """Return where a hand goes, and how far it is open, to bring a thing's middle to a point.

    Args:
        scene: As it is.
        arm: With the hand.
        thing: That it takes from above, across the thing's x axis.
        goal: In the world, (3,) [m].
        grasped: How far the hand is open at most that has it.
    """
    pose, tool = scene.thing(thing), scene.tool(arm)
    yaw = float(np.arctan2(pose.rotation[1, 0], pose.rotation[0, 0]))
    yaw = (yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4  # a cube looks the same four times
    down = turned(yaw) @ DOWN
    off = pose.position - tool.position
    is_over = float(np.linalg.norm(off[:2])) < 0.012
    is_there = is_over and abs(float(off[2])) < 0.012
    has_it = (
        is_there and scene.opening(arm) < grasped and scene.cell.gripper(arm).state().is_grasped
    )
    if has_it:
        return Pose(tool.position + (goal - pose.position), tool.rotation), 0.0
    if is_there:
        return Pose(pose.position, down), 0.0
    if is_over:
        return Pose(pose.position, down), 1.0
    return Pose(pose.position + np.array([0.0, 0.0, 0.1]), down), 1.0
