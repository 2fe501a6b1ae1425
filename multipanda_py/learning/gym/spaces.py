# SPDX-License-Identifier: Apache-2.0
"""What a policy sees: arms, things, the goal, and pictures, as nested dictionaries."""

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

AS_IT_IS = 0.5
"""Number that tells a hand nothing new."""
GRASP = 40.0
"""With which hands close [N]."""
CLOSED, OPEN = 0.4, 0.6
"""Below and above which a hand is told to close and to open; between them it does what it did."""


class HandControl:
    """Close a hand below a number and open it above another.

    A hand is told when that changes, not at every step: a real one takes a second for a command.

    Args:
        arm: Name of its arm.
    """

    def __init__(self, arm: str) -> None:
        self.arm = arm
        self.is_open = True

    def begin(self, cell: Cell) -> None:
        """Take what the hand does now for what it was told."""
        hand = cell.gripper(self.arm)
        state = hand.state()
        self.is_open = state.width > 0.5 * state.max_width

    def send(self, cell: Cell, number: float) -> None:
        """Tell the hand, if it is something new."""
        wanted = number > OPEN if not self.is_open else number >= CLOSED
        if wanted == self.is_open:
            return
        self.again(cell, wanted)

    def again(self, cell: Cell, wanted: bool) -> None:
        """Tell the hand to open or to close, whatever it was told before."""
        self.is_open = wanted
        hand = cell.gripper(self.arm)
        if wanted:
            hand.move(hand.state().max_width)
        else:  # whatever is between the fingers
            most = hand.state().max_width
            hand.grasp(0.0, force=GRASP, epsilon_inner=0.0, epsilon_outer=most)


_REAL = "biuf"
"""Kinds of numpy's numbers that are real; integers beyond 64 bits are objects."""


def real_numbers(given: Any) -> NDArray[np.float64]:
    """Return an array of what is given, a copy.

    Raises:
        TypeError: With what it is instead of real numbers, or without words if it is no array.
    """
    try:
        numbers = np.asarray(given)
    except Exception as error:  # whoever wrote it: it may be anything
        raise TypeError from error
    if np.ma.isMaskedArray(given):
        raise TypeError("masked")
    if numbers.dtype.kind not in _REAL:
        raise TypeError(str(numbers.dtype))
    return numbers.astype(np.float64)


Action: TypeAlias = NDArray[np.float32]


class ActionLayout:
    """Read actions: arm by arm the numbers of its control and, where there is a hand, one more.

    Args:
        controls: What numbers mean, by arm, in the task's order.
        hands: By arm that has one.

    Attributes:
        space: What is allowed.

    Thread: the environment's.
    """

    def __init__(self, controls: Mapping[str, Control], hands: Mapping[str, HandControl]) -> None:
        self._controls, self._hands = controls, hands
        low: list[float] = []
        high: list[float] = []
        self._places: dict[str, slice] = {}
        for name, control in controls.items():
            self._places[name] = slice(len(low), len(low) + len(control.low))
            low += [*control.low, *([0.0] if name in hands else [])]
            high += [*control.high, *([1.0] if name in hands else [])]
        self._low, self._high = np.array(low), np.array(high)
        self.space = spaces.Box(
            self._low.astype(np.float32), self._high.astype(np.float32), dtype=np.float32
        )

    def checked(self, action: ArrayLike) -> Vector:
        """Return the numbers of an action, within their bounds.

        Raises:
            ActionRejected: If it is of another shape, not finite, or no real numbers.
        """
        try:
            numbers = real_numbers(action)
        except TypeError:
            raise ActionRejected(
                f"action: got {' '.join(repr(action).split())[:60]}, allowed an array of real "
                "numbers, none of them masked"
            ) from None
        if numbers.shape != self.space.shape:
            raise ActionRejected(f"action: got shape {numbers.shape}, allowed {self.space.shape}")
        if not np.isfinite(numbers).all():
            place = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise ActionRejected(
                f"action: number {place} is {numbers[place]}, allowed finite ones"
            )
        clipped: Vector = np.clip(numbers, self._low, self._high)
        return clipped

    def send(self, cell: Cell, numbers: Vector, arm: str) -> None:
        """Have an arm and its hand told what is theirs of a checked action."""
        place = self._places[arm]
        self._controls[arm].send(cell, numbers[place])
        if arm in self._hands:
            self._hands[arm].send(cell, float(numbers[place.stop]))

    def toward(self, wanted: Mapping[str, tuple[Pose, float]]) -> Action:
        """Return the action that goes to poses of tools in their bases, and openings of hands.

        Raises:
            NotImplementedError: If a control goes to no poses.
        """
        numbers: list[float] = []
        for name, control in self._controls.items():
            pose, opening = wanted[name]
            numbers += control.toward(pose).tolist()
            numbers += [opening] if name in self._hands else []
        return np.asarray(numbers, np.float32)

    def hold(self) -> Action:
        """Return the action that leaves all targets and hands where they are."""
        numbers: list[float] = []
        for name, control in self._controls.items():
            numbers += [*control.rest.tolist(), *([AS_IT_IS] if name in self._hands else [])]
        return np.asarray(numbers, np.float32)


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
