# SPDX-License-Identifier: Apache-2.0
"""Tasks of a rigid tool: reach points, push a puck, insert a peg."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import ROD, TABLE, TABLE_HEIGHT, TOOL_DOWN, TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_REACH_TOLERANCE = 0.01
"""Distance at which a goal counts as reached [m]."""
_LOWEST_GOAL, _HIGHEST_GOAL = np.array([0.35, -0.25, 0.25]), np.array([0.65, 0.25, 0.6])
"""Bounds of the goals relative to the base of the arm [m]."""


class Reach(GymTask):
    """Motion of one tool to one point."""

    arms = {"arm": {"gripper": False}}
    goal_size = 3
    time_limit = 5.0

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Return a random point in the world frame for the tool of each arm as the goal."""
        bases = [scene.cell.descriptions[arm].position_base_in_world for arm in self.arms]
        return np.concatenate(
            [base + random.uniform(_LOWEST_GOAL, _HIGHEST_GOAL) for base in bases]
        )

    def _distances(self, scene: TaskScene) -> list[float]:
        goals = scene.goal.reshape(-1, 3)
        return [
            scene.distance(scene.tool_pose(arm).position, goal)
            for arm, goal in zip(self.arms, goals, strict=True)
        ]

    def reward(self, scene: TaskScene) -> float:
        """Return the mean proximity of the tools to their goals."""
        return float(np.mean([closeness(one, 0.2) for one in self._distances(scene)]))

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if every tool is within 1 cm of its goal."""
        return max(self._distances(scene)) < _REACH_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return tool poses at the goals with constant orientation."""
        goals = scene.goal.reshape(-1, 3)
        return {
            arm: (scene.tool_pose(arm).with_position(goal), 1.0)
            for arm, goal in zip(self.arms, goals, strict=True)
        }


class ReachTwo(Reach):
    """Motion of two tools to two points."""

    arms = {
        "left": {"position": [0.0, 0.4, 0.0], "gripper": False},
        "right": {"position": [0.0, -0.4, 0.0], "gripper": False},
    }
    goal_size = 6


_PUCK_HALF_HEIGHT = 0.02
"""Half height of the puck [m]."""
_PUCK_TOLERANCE = 0.02  # Maximum distance of the puck from its goal at the end [m].
_PUSH_DISTANCE = 0.075
"""Distance from the centre of the puck at which the rod starts to push [m]."""


class PushPuck(GymTask):
    """Pushing of a 300 g puck to a goal with a rod."""

    arms = {"arm": {"gripper": False, "tool": ROD}}
    objects = {
        "table": TABLE,
        "puck": {"shape": "cylinder", "size": [0.04, _PUCK_HALF_HEIGHT],
                 "position": [0.45, 0.0, TABLE_HEIGHT + _PUCK_HALF_HEIGHT],
                 "mass": 0.3, "friction": 0.4, "rgba": [0.2, 0.5, 0.8, 1.0]},
    }  # fmt: skip
    goal_size = 2
    time_limit = 15.0

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the puck at random; return a random goal 10 to 18 cm from it, (2,) [m]."""
        at = random.uniform([0.42, -0.12], [0.54, 0.12])
        scene.set_object_pose(
            "puck", Pose(np.array([*at, TABLE_HEIGHT + _PUCK_HALF_HEIGHT]), np.eye(3))
        )
        direction, distance = random.uniform(-1.2, 1.2), random.uniform(0.1, 0.18)
        return at + distance * np.array([np.cos(direction), np.sin(direction)])

    def _left(self, scene: TaskScene) -> float:
        return scene.distance(scene.object_pose("puck").position[:2], scene.goal)

    def reward(self, scene: TaskScene) -> float:
        """Return 0.8 times the proximity of puck and goal plus 0.2 times that of rod and puck."""
        rod = scene.distance(scene.tool_pose("arm").position, scene.object_pose("puck").position)
        return 0.8 * closeness(self._left(scene), 0.1) + 0.2 * closeness(rod - 0.05, 0.2)

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if the puck is within 2 cm of its goal."""
        return self._left(scene) < _PUCK_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return the tool pose that lowers the rod behind the puck, then pushes it to the goal."""
        puck, tool = scene.object_pose("puck").position[:2], scene.tool_pose("arm").position
        displacement = scene.goal - puck
        displacement = displacement / max(float(np.linalg.norm(displacement)), 1e-9)
        behind = puck - _PUSH_DISTANCE * displacement
        low, high = TABLE_HEIGHT + _PUCK_HALF_HEIGHT, TABLE_HEIGHT + 0.1
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
        return {"arm": (Pose(goal, TOOL_DOWN), 1.0)}


_PEG_RADIUS, _PEG_CLEARANCE = 0.008, 0.0005
"""Radius of the peg and its clearance on each side [m]."""
_INSERTION_DEPTH, _BLOCK_HEIGHT = 0.025, 0.04
"""Insertion depth at which the task is done, and height of the block with the hole [m]."""
_HOLE_POSITION = np.array([0.5, 0.0])
_MAX_HOLE_ERROR = 0.004
"""Maximum error of the observed hole position along each axis [m]."""


def _hole_walls() -> dict[str, dict[str, Any]]:
    # Four walls form a block with a square hole.
    inner, thick, half = _PEG_RADIUS + _PEG_CLEARANCE, 0.03, 0.5 * _BLOCK_HEIGHT
    walls = {}
    for name, direction in (("front", (1, 0)), ("back", (-1, 0)), ("left", (0, 1)),
                            ("right", (0, -1))):  # fmt: skip
        along = np.array(direction, float)
        at = _HOLE_POSITION + along * (inner + thick)
        across = inner + 2.0 * thick
        size = [thick, across, half] if direction[0] else [across, thick, half]
        walls[f"wall_{name}"] = {
            "shape": "box", "size": size, "position": [*at.tolist(), TABLE_HEIGHT + half],
            "friction": 0.2, "contact_time": 0.005, "rgba": [0.5, 0.55, 0.6, 1.0],
        }  # fmt: skip
    return walls


class PegInsertion(GymTask):
    """Insertion of a round 16 mm peg on the flange into a hole that is 1 mm wider.

    The position of the hole in the observation has an error of up to 4 mm along each axis.
    """

    arms = {
        "arm": {"gripper": False, "tool": {"mass": 0.2, "com": [0.0, 0.0, 0.05],
                                        "position": [0.0, 0.0, 0.12],
                                        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}}
    }  # fmt: skip
    objects = {"table": TABLE, **_hole_walls()}
    goal_size = 2
    time_limit = 20.0

    def reset(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Return the position of the hole with a random error as the goal, (2,) [m]."""
        return _HOLE_POSITION + random.uniform(-_MAX_HOLE_ERROR, _MAX_HOLE_ERROR, 2)

    def _depth(self, scene: TaskScene) -> float:
        tip = scene.tool_pose("arm").position
        is_inside = float(np.abs(tip[:2] - _HOLE_POSITION).max()) < _PEG_RADIUS
        return float(TABLE_HEIGHT + _BLOCK_HEIGHT - tip[2]) if is_inside else 0.0

    def reward(self, scene: TaskScene) -> float:
        """Return 0.3 times the proximity of tip and end position plus 0.7 times the progress.

        The progress is the insertion depth divided by the depth of the end position.
        """
        tip = scene.tool_pose("arm").position
        distance = scene.distance(
            tip, [*_HOLE_POSITION, TABLE_HEIGHT + _BLOCK_HEIGHT - _INSERTION_DEPTH]
        )
        return 0.3 * closeness(distance, 0.1) + 0.7 * min(
            1.0, max(0.0, self._depth(scene) / _INSERTION_DEPTH)
        )

    def is_success(self, scene: TaskScene) -> bool:
        """Return True if the tip is in the hole by more than 25 mm."""
        return self._depth(scene) > _INSERTION_DEPTH

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Return the tool pose that presses lightly and searches the hole along a spiral.

        The spiral starts at the observed position of the hole.
        """
        tip = scene.tool_pose("arm").position
        goal = scene.goal
        if self._depth(scene) > 0.004:
            return {"arm": (Pose(np.array([*tip[:2], tip[2] - 0.05]), TOOL_DOWN), 1.0)}
        if time < 2.0:
            return {
                "arm": (
                    Pose(np.array([*goal, TABLE_HEIGHT + _BLOCK_HEIGHT + 0.03]), TOOL_DOWN),
                    1.0,
                )
            }
        angle = 4.0 * max(0.0, time - 3.0) ** 0.75
        spiral = 0.0009 * angle / (2.0 * np.pi) * 1.3 * np.array([np.cos(angle), np.sin(angle)])
        return {
            "arm": (
                Pose(np.array([*(goal + spiral), TABLE_HEIGHT + _BLOCK_HEIGHT - 0.02]), TOOL_DOWN),
                1.0,
            )
        }
