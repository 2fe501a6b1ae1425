# SPDX-License-Identifier: Apache-2.0
"""How arms in real time come to where episodes begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import MultipandaError
from multipanda_py.gym.stopped_arms import StoppedArms

AT_REST = 0.01
"""Speed of joints below which arms begin to go home [rad/s, m/s]."""
REST_TIMEOUT = 10.0
"""For that [s]."""


class StartPose:
    """Have arms go to where they start, with open hands, and take the environment's laws there.

    Args:
        cell: That is started.
        laws: Names of the controllets, by arm.
        hands: Arms that have one.
        stopped: Of the same arms.

    Thread: the environment's.
    """

    def __init__(
        self, cell: Cell, laws: Mapping[str, str], hands: Iterable[str], stopped: StoppedArms
    ) -> None:
        self._cell, self._laws = cell, dict(laws)
        self._hands, self._stopped = tuple(hands), stopped

    def go(self, recovers: bool) -> None:
        """Do so; say why, if an arm has stopped before or then.

        Args:
            recovers: Whether arms that have stopped are brought back first.

        Raises:
            MotionFailed: If an arm has stopped.
            MultipandaError: If they cannot go there.
        """
        if recovers:
            self._stopped.recover()
        self._stopped.refuse()
        try:
            self._go()
        except MultipandaError:  # by what came of it
            self._stopped.refuse()
            raise

    def _go(self) -> None:
        cell = self._cell
        for arm in self._hands:
            cell.gripper(arm).move(cell.gripper(arm).state().max_width)
        cell.hold()
        cell.wait(self._rests, REST_TIMEOUT, "arms at rest")
        cell.switch(
            [f"{arm}/joint_trajectory_controller" for arm in self._laws], strictness="force_auto"
        )
        cell.move_to({arm: np.array(cell.config.arms[arm].q_start) for arm in self._laws})
        cell.switch([*self._laws.values()], strictness="force_auto")

    def _rests(self) -> bool:
        return all(np.abs(self._cell.state(arm).dq).max() < AT_REST for arm in self._laws)
