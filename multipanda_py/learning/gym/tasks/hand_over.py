# SPDX-License-Identifier: Apache-2.0
"""Task with a handover of a bar between two grippers in the air."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import DOWN, TABLE, TOP, TaskScene, turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_HALF_EDGES = np.array([0.16, 0.015, 0.015])
_GRASP_DISTANCE = 0.125
"""Distance from the centre of the bar to each grasp point [m]."""
_MEETING_POINT = np.array([0.5, 0.0, TOP + 0.22])
_BAR_ALONG_Y = turned(0.5 * np.pi)
"""Orientation of the bar along the y axis of the world, with one end in front of each arm."""
_ACROSS = _BAR_ALONG_Y @ DOWN
_MAX_GRASP_OPENING = 0.5
"""Maximum opening of a gripper that holds the bar, from 0 (closed) to 1 (open)."""


class HandOver(GymTask):
    """Handover of a 32 cm bar from the left gripper to the right gripper.

    The bar starts on the table in front of the left arm. At the end only the right gripper holds
    it, above the table.
    """

    arms = {"left": {"position": [0.0, 0.3, 0.0]}, "right": {"position": [0.0, -0.3, 0.0]}}
    objects = {
        "table": TABLE,
        "bar": {"shape": "box", "size": _HALF_EDGES.tolist(),
                "position": [0.5, 0.18, TOP + _HALF_EDGES[2]],
                "rpy": [0.0, 0.0, 1.5708], "mass": 0.05, "friction": 1.0,
                "rgba": [0.9, 0.6, 0.1, 1.0]},
    }  # fmt: skip
    seconds = 25.0
    # During the handover the grippers are closer to each other than this feature permits.
    params = {"collision_avoidance": {"arms": False}}

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the bar on the table."""
        at = random.uniform([0.45, 0.14], [0.55, 0.2])
        scene.place("bar", Pose(np.array([*at, TOP + _HALF_EDGES[2]]), _BAR_ALONG_Y))
        self._phase = 0
        return np.zeros(0)

    _phase = 0

    def _holds(self, scene: TaskScene, arm: str) -> bool:
        return (
            scene.opening(arm) < _MAX_GRASP_OPENING and scene.cell.gripper(arm).state().is_grasped
        )

    def reward(self, scene: TaskScene) -> float:
        """Return the progress: up to 1/6 before a grasp, up to 2/3 after it, 0.8 at the end."""
        left, right = (self._holds(scene, arm) for arm in self.arms)
        near = closeness(
            scene.distance(scene.tool("left").position, scene.thing("bar").position)
            - _GRASP_DISTANCE,
            0.2,
        )
        if not (left or right):
            return near / 6.0
        if not right:
            distance = (
                scene.distance(scene.tool("right").position, scene.thing("bar").position)
                - _GRASP_DISTANCE
            )
            return (1.0 + closeness(distance, 0.2)) / 3.0
        return 0.8

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if only the right gripper holds the bar, above the table."""
        is_up = float(scene.thing("bar").position[2]) > TOP + 0.08
        return is_up and self._holds(scene, "right") and scene.opening("left") > 0.8

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Grasp the bar at one end, lift it, grasp the other end and release the first."""
        bar = scene.thing("bar")
        ends = {"left": bar.position + _GRASP_DISTANCE * bar.rotation[:, 0],
                "right": bar.position - _GRASP_DISTANCE * bar.rotation[:, 0]}  # fmt: skip
        wait = Pose(np.array([0.5, -0.3, TOP + 0.3]), _ACROSS)
        if self._phase == 0:
            left = self._take(scene, "left", ends["left"])
            self._phase += self._holds(scene, "left")
            return {"left": left, "right": (wait, 1.0)}
        left_at = _MEETING_POINT + np.array([0.0, _GRASP_DISTANCE, 0.0])
        if self._phase == 1:
            self._phase += scene.distance(scene.tool("left").position, left_at) < 0.015
            return {"left": (Pose(left_at, _ACROSS), 0.0), "right": (wait, 1.0)}
        if self._phase == 2:
            self._phase += self._holds(scene, "right")
            return {"left": (Pose(left_at, _ACROSS), 0.0),
                    "right": self._take(scene, "right", ends["right"])}  # fmt: skip
        right = scene.tool("right")
        up = scene.tool("left").at(scene.tool("left").position + np.array([0.0, 0.05, 0.1]))
        if scene.opening("left") < 0.85:
            up = scene.tool("left")
        return {"left": (up, 1.0), "right": (right, 0.0)}

    def _take(self, scene: TaskScene, arm: str, at: Vector) -> tuple[Pose, float]:
        tool = scene.tool(arm).position
        off = at - tool
        # The tolerance is small along x, the closing direction of the fingers.
        is_over = abs(float(off[0])) < 0.012 and abs(float(off[1])) < 0.03
        is_there = is_over and abs(float(off[2])) < 0.012
        goal = at if is_over else at + np.array([0.0, 0.0, 0.08])
        return Pose(goal, _ACROSS), 0.0 if is_there else 1.0
