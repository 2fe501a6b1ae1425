# SPDX-License-Identifier: Apache-2.0
"""State of a cell in one recorded cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LoopError, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.state import ArmSnapshot


class RecordedMoment:
    """States of all arms and objects in one recorded cycle.

    Args:
        row: Copy of the cycle record.
        state: Function that returns the state of an arm in this cycle, by name.
        movable: Names of the movable objects, in the order of the cycle record.

    Attributes:
        row: Copy of the cycle record.
    """

    def __init__(
        self, row: NDArray[np.void], state: Callable[[str], ArmSnapshot], movable: Iterable[str]
    ) -> None:
        self.row, self.state, self._movable = row, state, tuple(movable)

    @property
    def time(self) -> float:
        """Cell time of the cycle [s]."""
        return float(self.row["time"])

    def pose(self, arm: str) -> Pose:
        """Return the measured tool pose in the base of its arm.

        Raises:
            LoopError: If the measured joint positions are not finite.
        """
        state = self.state(arm)
        try:
            return Pose(state.position_ee_in_base, state.rotation_ee_in_base)
        except TargetRejected:
            raise LoopError(
                f"{arm} has no pose: its measured joint positions {state.q.tolist()} are not "
                "finite"
            ) from None

    def objects(self) -> dict[str, Pose]:
        """Return the poses in the world of the movable objects that are in the scene, by name."""
        row = self.row
        return {
            name: Pose.from_quaternion(p[:3], [*p[4:], p[3]])
            for name, p, is_present in zip(
                self._movable, row["object_poses"], row["object_present"]
            )
            if is_present
        }
