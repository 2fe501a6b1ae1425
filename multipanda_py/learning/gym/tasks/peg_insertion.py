# SPDX-License-Identifier: Apache-2.0
"""Task in which a peg is inserted into a tight hole by contact."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import DOWN, TABLE, TOP, TaskScene
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_RADIUS, _CLEARANCE = 0.008, 0.0005
"""Radius of the peg and its clearance on each side [m]."""
_INSERTION_DEPTH, _BLOCK_HEIGHT = 0.025, 0.04
"""Insertion depth and height of the block with the hole [m]."""
_HOLE_POSITION = np.array([0.5, 0.0])
_MAX_HOLE_ERROR = 0.004
"""Maximum error of the observed hole position along each axis [m]."""


def _walls() -> dict[str, dict[str, Any]]:
    """Return the walls of a block with a square hole."""
    inner, thick, half = _RADIUS + _CLEARANCE, 0.03, 0.5 * _BLOCK_HEIGHT
    walls = {}
    for name, direction in (("front", (1, 0)), ("back", (-1, 0)), ("left", (0, 1)),
                            ("right", (0, -1))):  # fmt: skip
        along = np.array(direction, float)
        at = _HOLE_POSITION + along * (inner + thick)
        across = inner + 2.0 * thick
        size = [thick, across, half] if direction[0] else [across, thick, half]
        walls[f"wall_{name}"] = {
            "shape": "box", "size": size, "position": [*at.tolist(), TOP + half],
            "friction": 0.2, "contact_time": 0.005, "rgba": [0.5, 0.55, 0.6, 1.0],
        }  # fmt: skip
    return walls


class PegInsertion(GymTask):
    """Insertion of a round 16 mm peg on the flange into a hole that is 1 mm wider.

    The observed position of the hole has an error of up to 4 mm along each axis.
    """

    arms = {
        "arm": {"gripper": False, "tool": {"mass": 0.2, "com": [0.0, 0.0, 0.05],
                                        "position": [0.0, 0.0, 0.12],
                                        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}}
    }  # fmt: skip
    objects = {"table": TABLE, **_walls()}
    goal_size = 2
    seconds = 20.0

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Return the observed position of the hole with a random error."""
        return _HOLE_POSITION + random.uniform(-_MAX_HOLE_ERROR, _MAX_HOLE_ERROR, 2)

    def _depth(self, scene: TaskScene) -> float:
        tip = scene.tool("arm").position
        is_inside = float(np.abs(tip[:2] - _HOLE_POSITION).max()) < _RADIUS
        return float(TOP + _BLOCK_HEIGHT - tip[2]) if is_inside else 0.0

    def reward(self, scene: TaskScene) -> float:
        """Return the proximity of the tip to the hole and its insertion depth."""
        tip = scene.tool("arm").position
        distance = scene.distance(tip, [*_HOLE_POSITION, TOP + _BLOCK_HEIGHT - _INSERTION_DEPTH])
        return 0.3 * closeness(distance, 0.1) + 0.7 * min(
            1.0, max(0.0, self._depth(scene) / _INSERTION_DEPTH)
        )

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if the tip is inserted by 25 mm."""
        return self._depth(scene) > _INSERTION_DEPTH

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Press lightly near the observed hole and search in a spiral until the tip enters it."""
        tip = scene.tool("arm").position
        goal = scene.goal
        if self._depth(scene) > 0.004:
            return {"arm": (Pose(np.array([*tip[:2], tip[2] - 0.05]), DOWN), 1.0)}
        if time < 2.0:
            return {"arm": (Pose(np.array([*goal, TOP + _BLOCK_HEIGHT + 0.03]), DOWN), 1.0)}
        angle = 4.0 * max(0.0, time - 3.0) ** 0.75
        spiral = 0.0009 * angle / (2.0 * np.pi) * 1.3 * np.array([np.cos(angle), np.sin(angle)])
        return {"arm": (Pose(np.array([*(goal + spiral), TOP + _BLOCK_HEIGHT - 0.02]), DOWN), 1.0)}
