# SPDX-License-Identifier: Apache-2.0
"""What a policy sees: arms, things, the goal, and pictures, as nested dictionaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from multipanda_py.gym.control import Control, pose_numbers
from multipanda_py.gym.elsewhere import Sensors
from multipanda_py.gym.task_scene import TaskScene
from multipanda_py.robots import ArmDescription
from multipanda_py.view.rendering import Image

Observation = dict[str, Any]
_POSE = 9


class Observer:
    """Gather what is seen of a scene, as float32; pictures as bytes.

    An arm has ``q``, ``dq``, ``pose`` of the tool in its base (position and two columns of the
    rotation), ``twist``, ``wrench`` felt (force and torque along the base's axes), ``target``
    and, with a hand, ``gripper`` (how far it is open, 0 to 1).

    Args:
        arms: Descriptions by name, of those that are seen.
        controls: What their actions mean, by name.
        things: Names of things whose poses in the world are seen.
        goal_size: How many numbers the goal has.
        cameras: Of the scene, by name: height and width [pixels].
        sensors: What is seen beside the cell: its pictures are among ``images``, its numbers are
            ``sensors``.

    Attributes:
        space: Of all of it.
        picture_time: On the cell's clock, of the oldest of the last pictures of topics [s]; nan
            without any.
        sizes: Width and height of pictures [pixels].
    """

    def __init__(
        self,
        arms: Mapping[str, ArmDescription],
        controls: Mapping[str, Control],
        things: Sequence[str],
        goal_size: int,
        cameras: Mapping[str, tuple[int, int]],
        sensors: Sensors | None = None,
    ) -> None:
        self._arms, self._controls = arms, controls
        self._things, self._goal_size, self._cameras = tuple(things), goal_size, dict(cameras)
        self._sensors, self.picture_time = sensors, math.nan
        self.sizes = {(width, height) for height, width in self._cameras.values()}
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Dict({key: _numbers(size) for key, size in self._sizes(name).items()})
            for name in arms
        }
        if things:
            parts["things"] = spaces.Dict({name: _numbers(_POSE) for name in things})
        if goal_size:
            parts["goal"] = _numbers(goal_size)
        if pictures := {**cameras, **(sensors.pictures if sensors else {})}:
            parts["images"] = spaces.Dict(
                {
                    name: spaces.Box(0, 255, (height, width, 3), np.uint8)
                    for name, (height, width) in pictures.items()
                }
            )
        if sensors and sensors.numbers:
            parts["sensors"] = spaces.Dict({n: _numbers(k) for n, k in sensors.numbers.items()})
        self.space = spaces.Dict(parts)

    def _sizes(self, arm: str) -> dict[str, int]:
        n = self._arms[arm].n_joints
        sizes = {"q": n, "dq": n, "pose": _POSE, "twist": 6, "wrench": 6}
        sizes["target"] = len(self._controls[arm].target)
        return sizes | ({} if self._arms[arm].gripper is None else {"gripper": 1})

    def see(self, scene: TaskScene, draws: bool = True) -> Observation:
        """Return what was at the instant that the scene looks at.

        Args:
            scene: That is seen.
            draws: Whether there are pictures of its cameras.
        """
        seen: Observation = {name: self._arm(scene, name) for name in self._arms}
        if self._things:
            poses = scene.seen.objects()
            seen["things"] = {name: _float(pose_numbers(poses[name])) for name in self._things}
        if self._goal_size:
            seen["goal"] = _float(scene.goal)
        if self._cameras and draws:
            seen["images"] = self.draw(scene)
        if self._sensors is not None:
            self._hear(self._sensors, scene, seen)
        return seen

    def draw(self, scene: TaskScene) -> dict[str, Image]:
        """Return pictures of all cameras, of the instant that the scene looks at."""
        return {
            name: scene.image(name, width, height)
            for name, (height, width) in self._cameras.items()
        }

    def oldest_picture(self, instant: float) -> float:
        """Return when the oldest picture was, if those of cameras are of an instant [s]."""
        heard = self.picture_time
        return float(np.fmin(heard, instant)) if self._cameras else heard

    def _hear(self, sensors: Sensors, scene: TaskScene, seen: Observation) -> None:
        """Add what is seen beside the cell."""
        pictures, numbers, age = sensors.read()
        if pictures:
            seen["images"] = {**seen.get("images", {}), **pictures}
            self.picture_time = scene.cell.time - age
        if numbers:
            seen["sensors"] = {name: _float(values) for name, values in numbers.items()}

    def _arm(self, scene: TaskScene, name: str) -> Observation:
        state, hand = scene.seen.state(name), self._arms[name].gripper
        seen = {
            "q": _float(state.q),
            "dq": _float(state.dq),
            "pose": _float(pose_numbers(scene.seen.pose(name))),
            "twist": _float(state.twist_ee_in_base),
            "wrench": _float(state.wrench_ext_in_base),
            "target": _float(self._controls[name].target),
        }
        return seen | ({} if hand is None else {"gripper": _float([scene.opening(name)])})


def _numbers(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _float(numbers: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.asarray(numbers, np.float32)
