# SPDX-License-Identifier: Apache-2.0
"""Task in which two arms lift a box between rod tools."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import TaskScene, turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_TABLE_HEIGHT = 0.3  # Height of the top of the table [m].
_HALF_EDGES = np.array([0.06, 0.08, 0.1])
"""Half edges of the box [m]."""
_GOAL_TOLERANCE = 0.02  # Tolerance of the height of the box [m].
_PRESS_DEPTH = 0.04
"""Depth of the targets inside the box, which generates the pressing force [m]."""
_GRASP_HEIGHT = 0.04
"""Height of the grasp above the centre of the box [m]. The box then hangs between the tips."""
_APPROACH_DISTANCE, _MISALIGNMENTS, _CONTACT_GAPS = 0.015, (0.01, 0.03), (0.003, 0.01)
"""Expert parameters [m]. ``_OFF``: approach distance from the box. ``_BESIDE``: misalignments
below which tips press fully, and above which they do not press. ``_TOUCHING``: gaps below which
contact counts fully, and above which it does not count."""
_SLIP_MISALIGNMENT = 0.04
"""Additional misalignment at which tips in contact continue to press [m]."""
_PRESS_FORCES = (8.0, 18.0)
"""Pressing forces for no and for full lifting motion [N]."""
_MAX_LEAD_HEIGHT = 0.02
"""Maximum height of the targets above the box while lifting [m]."""
_SIDES = {"left": 1.0, "right": -1.0}
_TIP_OBJECT = {"mass": 0.2, "com": [0.0, 0.0, 0.03], "position": [0.0, 0.0, 0.06], "friction": 1.0,
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip
_INWARD_ROTATIONS = {
    "left": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "right": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
}
"""Orientations of tools that point at each other along y."""


class LiftBox(GymTask):
    """Two-arm lift of a box of 12 x 16 x 20 cm and 0.8 kg by 15 cm."""

    arms = {
        "left": {"position": [0.0, 0.3, 0.0], "gripper": False, "tool": _TIP_OBJECT,
                 "q_start": [0.4451, 0.02959, -0.5255, -2.25892, -1.61219, 1.64112, 0.71578]},
        "right": {"position": [0.0, -0.3, 0.0], "gripper": False, "tool": _TIP_OBJECT,
                  "q_start": [-0.73593, 0.03744, 0.82009, -2.25883, 1.60509, 1.65203, -0.71612]},
    }  # fmt: skip
    objects = {
        "table": {"shape": "box", "size": [0.2, 0.2, 0.02],
                  "position": [0.5, 0.0, _TABLE_HEIGHT - 0.02],
                  "rgba": [0.72, 0.6, 0.45, 1.0]},
        "box": {"shape": "box", "size": _HALF_EDGES.tolist(),
                "position": [0.5, 0.0, _TABLE_HEIGHT + _HALF_EDGES[2]],
                "mass": 0.8, "rgba": [0.85, 0.33, 0.2, 1.0]},
    }  # fmt: skip
    goal_size = 1
    seconds = 10.0
    touching = ("left box", "right box")

    _rest = Pose.identity()

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Place the box with a small rotation. The goal is the height of its centre."""
        at, yaw = random.uniform([0.47, -0.01], [0.53, 0.01]), random.uniform(-0.1, 0.1)
        self._rest = Pose(np.array([*at, _TABLE_HEIGHT + _HALF_EDGES[2]]), turned(yaw))
        scene.place("box", self._rest)
        return np.array([_TABLE_HEIGHT + _HALF_EDGES[2] + 0.15])

    def _tips_off(self, scene: TaskScene) -> float:
        """Return the sum of the distances of both tips from their sides of the box [m]."""
        box = scene.thing("box")
        return sum(
            scene.distance(
                scene.tool(arm).position, box.position + side * _HALF_EDGES[1] * box.rotation[:, 1]
            )
            for arm, side in _SIDES.items()
        )

    def reward(self, scene: TaskScene) -> float:
        """Return the proximity of the tips to the box and the height of the box."""
        risen = 1.0 - abs(float(scene.goal[0] - scene.thing("box").position[2])) / 0.15
        return 0.3 * closeness(self._tips_off(scene), 0.2) + 0.7 * max(0.0, min(1.0, risen))

    def is_done(self, scene: TaskScene) -> bool:
        """Return True if the box is lifted and upright."""
        box = scene.thing("box")
        is_upright = float(box.rotation[2, 2]) > 0.95
        return is_upright and abs(float(scene.goal[0] - box.position[2])) < _GOAL_TOLERANCE

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Approach both sides of the box, press, and lift it while both tips press.

        The expert is a continuous function of the poses of box and tips, independent of time, so
        that it can be imitated.
        """
        box, goal = scene.thing("box"), float(scene.goal[0])
        yaw = float(np.arctan2(box.rotation[1, 0], box.rotation[0, 0]))
        grip = box.position + [0.0, 0.0, _GRASP_HEIGHT]
        gaps = np.array(
            [
                (scene.tool(arm).position - grip) @ turned(yaw) * [1.0, side, 1.0]
                for arm, side in _SIDES.items()
            ]
        )
        pressing = min(abs(float(scene.force(arm) @ turned(yaw)[:, 1])) for arm in _SIDES)
        touches = _interpolate(float(gaps[:, 1].max()) - float(_HALF_EDGES[1]), *_CONTACT_GAPS)
        aside = float(np.hypot(gaps[:, 0], gaps[:, 2]).max()) - _SLIP_MISALIGNMENT * touches
        beside = _interpolate(aside, *_MISALIGNMENTS)
        holds = beside * touches * _interpolate(-pressing, -_PRESS_FORCES[1], -_PRESS_FORCES[0])
        inside = beside * (_PRESS_DEPTH + _APPROACH_DISTANCE) - _APPROACH_DISTANCE
        lift = holds * float(np.clip(goal - box.position[2], 0.0, _MAX_LEAD_HEIGHT))
        frame = turned((1.0 - holds) * yaw)  # In the lift the tools align the box to the world.
        middle = grip + [0.0, 0.0, lift]
        return {
            arm: (
                Pose(
                    middle + side * (_HALF_EDGES[1] - inside) * frame[:, 1],
                    frame @ _INWARD_ROTATIONS[arm],
                ),
                1.0,
            )
            for arm, side in _SIDES.items()
        }


def _interpolate(value: float, full: float, empty: float) -> float:
    """Return 1 up to ``full``, 0 from ``empty`` on, and a linear transition in between."""
    return float(np.clip((empty - value) / (empty - full), 0.0, 1.0))
