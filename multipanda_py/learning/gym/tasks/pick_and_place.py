# SPDX-License-Identifier: Apache-2.0
"""Task in which a cube is picked up and held at a point."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import DOWN, TABLE, TOP, TaskScene, turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_HALF_EDGE = 0.02  # Half edge of the cube [m].
_GOAL_TOLERANCE = 0.015  # Tolerance of the position of the cube [m].
_MAX_GRASP_OPENING = 0.62
"""Maximum opening of a gripper that holds the cube, from 0 (closed) to 1 (open)."""


class PickAndPlace(GymTask):
    """Transport of a cube of 4 cm and 50 g to a point with the gripper."""

    arms = {"arm": {}}
    objects = {
        "table": TABLE,
        "cube": {"shape": "box", "size": [_HALF_EDGE] * 3,
                 "position": [0.45, 0.0, TOP + _HALF_EDGE],
                 "mass": 0.05, "friction": 1.0, "rgba": [0.8, 0.25, 0.2, 1.0]},
    }  # fmt: skip
    goal_size = 3
    seconds = 12.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the cube with a random rotation and draw a point above the table."""
        at, yaw = random.uniform([0.4, -0.15], [0.55, 0.15]), random.uniform(-0.6, 0.6)
        scene.place("cube", Pose(np.array([*at, TOP + _HALF_EDGE]), turned(yaw)))
        return random.uniform([0.4, -0.2, TOP + 0.08], [0.58, 0.2, TOP + 0.25])

    def reward(self, scene: TaskScene) -> float:
        """Return the proximity of gripper and cube, and of cube and goal."""
        cube = scene.thing("cube").position
        reaching = closeness(scene.distance(scene.tool("arm").position, cube), 0.1)
        return 0.3 * reaching + 0.7 * closeness(scene.distance(cube, scene.goal), 0.15) * reaching

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if the gripper holds the cube within 15 mm of the goal."""
        cube = scene.thing("cube").position
        in_hand = scene.distance(scene.tool("arm").position, cube) < 0.03
        return in_hand and scene.distance(cube, scene.goal) < _GOAL_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Move above the cube, descend, close the gripper and carry the cube."""
        return {"arm": grasp_and_carry(scene, "arm", "cube", scene.goal, _MAX_GRASP_OPENING)}


def grasp_and_carry(
    scene: TaskScene, arm: str, object_name: str, goal: Vector, grasped: float
) -> tuple[Pose, float]:
    """Return tool pose and gripper opening that move the centre of an object to a point.

    Args:
        scene: Current scene.
        arm: Name of an arm with a gripper.
        object_name: Name of the object, which is grasped from above across its x axis.
        goal: Goal of the centre in the world frame, (3,) [m].
        grasped: Maximum opening of a gripper that holds the object.
    """
    pose, tool = scene.thing(object_name), scene.tool(arm)
    yaw = float(np.arctan2(pose.rotation[1, 0], pose.rotation[0, 0]))
    yaw = (yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4  # A cube has a symmetry of 90 degrees.
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
