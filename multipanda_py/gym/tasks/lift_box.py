# SPDX-License-Identifier: Apache-2.0
"""Press two rods against a box, and lift it: what one arm alone cannot."""

from __future__ import annotations

import numpy as np

from multipanda_py.gym.task import GymTask, closeness
from multipanda_py.gym.task_scene import TaskScene
from multipanda_py.gym.tasks.scene_parts import turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_TOP = 0.3
_HALF = np.array([0.06, 0.08, 0.1])
"""Half the edges of the box [m]."""
_NEAR = 0.02
_PRESS = 0.03
"""How far inside the box its targets are: the spring between presses [m]."""
_TIP = {"mass": 0.2, "com": [0.0, 0.0, 0.03], "position": [0.0, 0.0, 0.06], "friction": 1.0,
        "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip
_INWARD = {
    "left": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]),
    "right": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
}
"""Of tools that point at each other along y."""


class LiftBox(GymTask):
    """A box of 12 x 16 x 20 cm and 0.8 kg between two arms; it is to be 15 cm higher."""

    arms = {
        "left": {"position": [0.0, 0.3, 0.0], "hand": False, "tool": _TIP,
                 "q_start": [0.4451, 0.02959, -0.5255, -2.25892, -1.61219, 1.64112, 0.71578]},
        "right": {"position": [0.0, -0.3, 0.0], "hand": False, "tool": _TIP,
                  "q_start": [-0.73593, 0.03744, 0.82009, -2.25883, 1.60509, 1.65203, -0.71612]},
    }  # fmt: skip
    objects = {
        "table": {"shape": "box", "size": [0.2, 0.2, 0.02], "position": [0.5, 0.0, _TOP - 0.02],
                  "rgba": [0.72, 0.6, 0.45, 1.0]},
        "box": {"shape": "box", "size": _HALF.tolist(), "position": [0.5, 0.0, _TOP + _HALF[2]],
                "mass": 0.8, "rgba": [0.85, 0.33, 0.2, 1.0]},
    }  # fmt: skip
    goal_size = 1
    seconds = 10.0

    _rest = Pose.identity()

    def begin(self, scene: TaskScene, random: np.random.Generator) -> Vector:
        """Put the box down, turned a little; the goal is a height of its middle."""
        at, yaw = random.uniform([0.47, -0.01], [0.53, 0.01]), random.uniform(-0.1, 0.1)
        self._rest = Pose(np.array([*at, _TOP + _HALF[2]]), turned(yaw))
        scene.place("box", self._rest)
        return np.array([_TOP + _HALF[2] + 0.15])

    def _tips_off(self, scene: TaskScene) -> float:
        """Return how far the tips are from the sides of the box, both together [m]."""
        box = scene.thing("box")
        return sum(
            scene.distance(
                scene.tool(arm).position, box.position + side * _HALF[1] * box.rotation[:, 1]
            )
            for arm, side in (("left", 1.0), ("right", -1.0))
        )

    def reward(self, scene: TaskScene) -> float:
        """Return how near the tips are to the box, then how high it is."""
        risen = 1.0 - abs(float(scene.goal[0] - scene.thing("box").position[2])) / 0.15
        return 0.3 * closeness(self._tips_off(scene), 0.2) + 0.7 * max(0.0, min(1.0, risen))

    def is_done(self, scene: TaskScene) -> bool:
        """Return whether the box is up, and upright."""
        box = scene.thing("box")
        is_upright = float(box.rotation[2, 2]) > 0.95
        return is_upright and abs(float(scene.goal[0] - box.position[2])) < _NEAR

    def expert(self, scene: TaskScene, time: float) -> dict[str, tuple[Pose, float]]:
        """Press on both sides of where the box stood, and go up with it."""
        off = _PRESS if time > 1.0 else -0.015
        lift = np.array([0.0, 0.0, min(0.08 * max(0.0, time - 2.5), 0.16)])
        return {
            arm: (
                Pose(
                    self._rest.position
                    + lift
                    + side * (_HALF[1] - off) * self._rest.rotation[:, 1],
                    self._rest.rotation @ _INWARD[arm],
                ),
                1.0,
            )
            for arm, side in (("left", 1.0), ("right", -1.0))
        }
