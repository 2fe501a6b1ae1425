# SPDX-License-Identifier: Apache-2.0
"""Where in an action the numbers of each arm and hand are, and to whom they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import ActionRejected
from multipanda_py.gym.control import Control
from multipanda_py.gym.hand import AS_IT_IS, HandControl
from multipanda_py.gym.real_numbers import real_numbers
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

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
