# SPDX-License-Identifier: Apache-2.0
"""What the loop recorded of one cycle, read as a cell that stands still."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import LoopError, TargetRejected
from multipanda_py.pose import Pose
from multipanda_py.state import ArmSnapshot


class RecordedMoment:
    """States of all arms and things at one instant, whatever the loop has done since.

    Args:
        row: Of the instant; a copy.
        state: Returns an arm's state in it, by name.
        movable: Names of the things that move, in the row's order.

    Attributes:
        row: The same.
    """

    def __init__(
        self, row: NDArray[np.void], state: Callable[[str], ArmSnapshot], movable: Iterable[str]
    ) -> None:
        self.row, self.state, self._movable = row, state, tuple(movable)

    @property
    def time(self) -> float:
        """Of the controlled world [s]."""
        return float(self.row["time"])

    def pose(self, arm: str) -> Pose:
        """Return the measured pose of a tool in its arm's base.

        Raises:
            LoopError: If what was measured is no number.
        """
        state = self.state(arm)
        try:
            return Pose(state.position_ee_in_base, state.rotation_ee_in_base)
        except TargetRejected:
            raise LoopError(
                f"{arm} has no pose: got joints {state.q.tolist()}, allowed finite numbers"
            ) from None

    def objects(self) -> dict[str, Pose]:
        """Return the poses of movable things that are in the scene, in the world."""
        row = self.row
        return {
            name: Pose.from_quaternion(p[:3], [*p[4:], p[3]])
            for name, p, is_present in zip(self._movable, row["objects"], row["present"])
            if is_present
        }
