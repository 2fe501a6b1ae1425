# SPDX-License-Identifier: Apache-2.0
"""Press two rods against a box, and lift it: what one arm alone cannot."""

from __future__ import annotations

import numpy as np

from multipanda_py.learning.gym.task import GymTask, closeness
from multipanda_py.learning.gym.task_scene import TaskScene, turned
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

_TOP = 0.3
_HALF = np.array([0.06, 0.08, 0.1])
"""Half the edges of the box [m]."""
_NEAR = 0.02
_PRESS = 0.04
"""How far inside the box its targets are: the spring between presses [m]."""
_GRIP = 0.04
"""How far above its middle the expert holds the box, which hangs between the tips then [m]."""
_OFF, _BESIDE, _TOUCHING = 0.015, (0.01, 0.03), (0.003, 0.01)
"""Of the expert's tips: how far beside the box they come first; how near to their places they
press wholly, and not at all; how near to the box is touching, and is not [m]."""
_SLIP = 0.04
"""How much farther from their places tips that touch go on pressing [m]."""
_FORCE = (8.0, 18.0)
"""With which they do not lift, and lift wholly [N]."""
_CARROT = 0.02
"""How far above the box the targets go ahead of it [m]."""
_SIDES = {"left": 1.0, "right": -1.0}
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
    touching = ("left box", "right box")

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
            for arm, side in _SIDES.items()
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
        """Go to both sides of the box, press, and lift it while both press.

        All of it follows from what is seen, without jumps: where box and tips are, not what time
        it is. So it can be learned from examples.
        """
        box, goal = scene.thing("box"), float(scene.goal[0])
        yaw = float(np.arctan2(box.rotation[1, 0], box.rotation[0, 0]))
        grip = box.position + [0.0, 0.0, _GRIP]
        gaps = np.array(
            [
                (scene.tool(arm).position - grip) @ turned(yaw) * [1.0, side, 1.0]
                for arm, side in _SIDES.items()
            ]
        )
        pressing = min(abs(float(scene.force(arm) @ turned(yaw)[:, 1])) for arm in _SIDES)
        touches = _share(float(gaps[:, 1].max()) - float(_HALF[1]), *_TOUCHING)
        aside = float(np.hypot(gaps[:, 0], gaps[:, 2]).max()) - _SLIP * touches
        beside = _share(aside, *_BESIDE)
        holds = beside * touches * _share(-pressing, -_FORCE[1], -_FORCE[0])
        inside = beside * (_PRESS + _OFF) - _OFF
        lift = holds * float(np.clip(goal - box.position[2], 0.0, _CARROT))
        frame = turned((1.0 - holds) * yaw)  # so that the box does not turn on its way
        middle = grip + [0.0, 0.0, lift]
        return {
            arm: (
                Pose(middle + side * (_HALF[1] - inside) * frame[:, 1], frame @ _INWARD[arm]),
                1.0,
            )
            for arm, side in _SIDES.items()
        }


def _share(value: float, full: float, none: float) -> float:
    """Return 1 up to ``full``, 0 from ``none`` on, and a line between."""
    return float(np.clip((none - value) / (none - full), 0.0, 1.0))
