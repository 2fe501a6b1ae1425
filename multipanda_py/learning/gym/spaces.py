# SPDX-License-Identifier: Apache-2.0
"""Action and observation spaces of an environment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import ActionRejected
from multipanda_py.learning.gym.control import Control, pose_numbers
from multipanda_py.learning.gym.remote import Sensors
from multipanda_py.learning.gym.task_scene import TaskScene
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.simulation.rendering import Image
from multipanda_py.state import Vector

KEEP_GRIPPER = 0.5
"""Gripper component of an action that keeps the last command."""
GRASP_FORCE = 40.0
"""Grasping force [N]."""
CLOSE_THRESHOLD, OPEN_THRESHOLD = 0.4, 0.6
"""Thresholds that close and open a gripper. Between them the last command is kept."""


class GripperControl:
    """Gripper control by one action component, with hysteresis between opening and closing.

    Args:
        arm: Name of the arm.
    """

    def __init__(self, arm: str) -> None:
        self.arm = arm
        self.is_open = True

    def reset(self, cell: Cell) -> None:
        """Derive the last command, open or close, from the measured width."""
        hand = cell.gripper(self.arm)
        state = hand.state()
        self.is_open = state.width > 0.5 * state.max_width

    def send(self, cell: Cell, number: float) -> None:
        """Send a command to open or close if it differs from the last one.

        Args:
            cell: Running cell.
            number: Action component of the gripper, from 0 (closed) to 1 (open).
        """
        desired = number > OPEN_THRESHOLD if not self.is_open else number >= CLOSE_THRESHOLD
        # A real gripper needs about 1 s for a command, so send only changes.
        if desired == self.is_open:
            return
        self.again(cell, desired)

    def again(self, cell: Cell, should_open: bool) -> None:
        """Send a command to open or close, even if it equals the last command."""
        self.is_open = should_open
        hand = cell.gripper(self.arm)
        if should_open:
            hand.move(hand.state().max_width)
        else:  # The tolerances epsilon accept a grasped object of any width.
            max_width = hand.state().max_width
            hand.grasp(0.0, force=GRASP_FORCE, epsilon_inner=0.0, epsilon_outer=max_width)


_REAL_KINDS = "biuf"
"""Kinds of real NumPy types. Integers beyond 64 bits have the kind object."""


def real_numbers(value: Any) -> NDArray[np.float64]:
    """Return a copy of a value as an array of real numbers.

    Raises:
        TypeError: If the value is no array of real numbers. The message is the type of its
            elements, or empty if the value cannot be converted to any array.
    """
    try:
        numbers = np.asarray(value)
    except Exception as error:  # The conversion of an unknown type may raise any error.
        raise TypeError from error
    if np.ma.isMaskedArray(value):
        raise TypeError("masked")
    if numbers.dtype.kind not in _REAL_KINDS:
        raise TypeError(str(numbers.dtype))
    return numbers.astype(np.float64)


Action: TypeAlias = NDArray[np.float32]


class ActionLayout:
    """Order of action components: for each arm, those of its control, then that of its gripper.

    Args:
        controls: Controls that convert actions to targets, by arm in the order of the task.
        hands: Gripper controls by arm.

    Attributes:
        space: Action space of the environment.

    Thread: that of the environment.
    """

    def __init__(
        self, controls: Mapping[str, Control], hands: Mapping[str, GripperControl]
    ) -> None:
        self._controls, self._hands = controls, hands
        low: list[float] = []
        high: list[float] = []
        self._slices: dict[str, slice] = {}
        for name, control in controls.items():
            self._slices[name] = slice(len(low), len(low) + len(control.low))
            low += [*control.low, *([0.0] if name in hands else [])]
            high += [*control.high, *([1.0] if name in hands else [])]
        self._low, self._high = np.array(low), np.array(high)
        self.space = spaces.Box(
            self._low.astype(np.float32), self._high.astype(np.float32), dtype=np.float32
        )

    def checked(self, action: ArrayLike) -> Vector:
        """Return the components of an action, clipped to their bounds.

        Raises:
            ActionRejected: If the action has another shape or contains values that are not finite
                real numbers.
        """
        try:
            numbers = real_numbers(action)
        except TypeError:
            raise ActionRejected(
                f"action: got {' '.join(repr(action).split())[:60]}, allowed an unmasked array of "
                "real numbers"
            ) from None
        if numbers.shape != self.space.shape:
            raise ActionRejected(f"action: got shape {numbers.shape}, allowed {self.space.shape}")
        if not np.isfinite(numbers).all():
            index = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise ActionRejected(
                f"action: component {index} is {numbers[index]}, allowed finite numbers"
            )
        clipped: Vector = np.clip(numbers, self._low, self._high)
        return clipped

    def send(self, cell: Cell, numbers: Vector, arm: str) -> None:
        """Send the target of one arm, and the command of its gripper.

        Args:
            cell: Running cell.
            numbers: Action of all arms, within its bounds, (k,).
            arm: Name of the arm.
        """
        index = self._slices[arm]
        self._controls[arm].send(cell, numbers[index])
        if arm in self._hands:
            self._hands[arm].send(cell, float(numbers[index.stop]))

    def toward(self, desired: Mapping[str, tuple[Pose, float]]) -> Action:
        """Return the action that moves all arms towards tool poses in the next step.

        Args:
            desired: Tool pose in the base frame and gripper opening from 0 to 1, by arm.

        Raises:
            NotImplementedError: If the actions of an arm are joint positions.
        """
        numbers: list[float] = []
        for name, control in self._controls.items():
            pose, opening = desired[name]
            numbers += control.toward(pose).tolist()
            numbers += [opening] if name in self._hands else []
        return np.asarray(numbers, np.float32)

    def hold(self) -> Action:
        """Return the action that keeps the targets and gripper commands of all arms."""
        numbers: list[float] = []
        for name, control in self._controls.items():
            numbers += [*control.rest.tolist(), *([KEEP_GRIPPER] if name in self._hands else [])]
        return np.asarray(numbers, np.float32)


Observation = dict[str, Any]
_POSE_SIZE = 9  # Number of components of a pose: position and two columns of its rotation.


class Observer:
    """Collector of the observations of an environment: vectors of float32, images of uint8.

    An arm has ``q``, ``dq``, ``twist``, ``target`` and ``pose`` of the tool in the base frame
    (position and two columns of the rotation matrix). Its ``wrench`` is the estimated external
    wrench in the base frame. With a gripper it also has ``gripper``, its opening from 0 to 1.

    Args:
        arms: Descriptions of the observed arms by name.
        controls: Controls by arm, whose targets are observed.
        objects: Names of the objects whose poses in the world frame are observed.
        goal_size: Number of components of the goal.
        cameras: Height and width of the camera images by name [pixels].
        sensors: Additional sensors, see ``images`` and ``sensors`` of the observation.

    Attributes:
        space: Observation space.
        topic_image_time: Cell time of the oldest topic image in the latest observation [s], or
            nan.
        sizes: Width and height of the camera images [pixels].
    """

    def __init__(
        self,
        arms: Mapping[str, ArmDescription],
        controls: Mapping[str, Control],
        objects: Sequence[str],
        goal_size: int,
        cameras: Mapping[str, tuple[int, int]],
        sensors: Sensors | None = None,
    ) -> None:
        self._arms, self._controls = arms, controls
        self._objects, self._goal_size, self._cameras = tuple(objects), goal_size, dict(cameras)
        self._sensors, self.topic_image_time = sensors, math.nan
        self.sizes = {(width, height) for height, width in self._cameras.values()}
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Dict({key: _numbers(size) for key, size in self._sizes(name).items()})
            for name in arms
        }
        if objects:
            parts["objects"] = spaces.Dict({name: _numbers(_POSE_SIZE) for name in objects})
        if goal_size:
            parts["goal"] = _numbers(goal_size)
        if images := {**cameras, **(sensors.images if sensors else {})}:
            parts["images"] = spaces.Dict(
                {
                    name: spaces.Box(0, 255, (height, width, 3), np.uint8)
                    for name, (height, width) in images.items()
                }
            )
        if sensors and sensors.numbers:
            parts["sensors"] = spaces.Dict({n: _numbers(k) for n, k in sensors.numbers.items()})
        self.space = spaces.Dict(parts)

    def _sizes(self, arm: str) -> dict[str, int]:
        n = self._arms[arm].n_joints
        sizes = {"q": n, "dq": n, "pose": _POSE_SIZE, "twist": 6, "wrench": 6}
        sizes["target"] = len(self._controls[arm].target)
        return sizes | ({} if self._arms[arm].gripper is None else {"gripper": 1})

    def see(self, scene: TaskScene, with_images: bool = True) -> Observation:
        """Return the observation of ``scene.observed_state``, with camera images if selected."""
        obs: Observation = {name: self._arm(scene, name) for name in self._arms}
        if self._objects:
            poses = scene.observed_state.objects()
            obs["objects"] = {name: _float(pose_numbers(poses[name])) for name in self._objects}
        if self._goal_size:
            obs["goal"] = _float(scene.goal)
        if self._cameras and with_images:
            obs["images"] = self.draw(scene)
        if self._sensors is not None:
            self._add_sensors(self._sensors, scene, obs)
        return obs

    def draw(self, scene: TaskScene) -> dict[str, Image]:
        """Render the images of all cameras in the state ``scene.observed_state``, by name."""
        return {
            name: scene.image(name, width, height)
            for name, (height, width) in self._cameras.items()
        }

    def oldest_image_time(self, instant: float) -> float:
        """Return the cell time of the oldest image in the latest observation [s].

        Args:
            instant: Cell time of the rendered images [s]. Images from topics may be older.
        """
        received = self.topic_image_time
        return float(np.fmin(received, instant)) if self._cameras else received

    def _add_sensors(self, sensors: Sensors, scene: TaskScene, obs: Observation) -> None:
        images, numbers, age = sensors.read()
        if images:
            obs["images"] = {**obs.get("images", {}), **images}
            self.topic_image_time = scene.cell.time - age
        if numbers:
            obs["sensors"] = {name: _float(values) for name, values in numbers.items()}

    def _arm(self, scene: TaskScene, name: str) -> Observation:
        state, hand = scene.observed_state.state(name), self._arms[name].gripper
        obs = {
            "q": _float(state.q),
            "dq": _float(state.dq),
            "pose": _float(pose_numbers(scene.observed_state.pose(name))),
            "twist": _float(state.twist_ee_in_base),
            "wrench": _float(state.wrench_ext_in_base),
            "target": _float(self._controls[name].target),
        }
        return obs | ({} if hand is None else {"gripper": _float([scene.gripper_opening(name)])})


def _numbers(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def _float(numbers: Any) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.asarray(numbers, np.float32)
