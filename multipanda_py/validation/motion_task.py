# SPDX-License-Identifier: Apache-2.0
"""A motion by which an arm is identified, as a task."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import UnknownName
from multipanda_py.state import Matrix
from multipanda_py.validation.task import PassTime, Task, task_cell, with_start

AFTERWARDS = 0.2
"""For an arm to come to rest after a motion [s]."""


class MotionTask(Task):
    """Go through a motion by ``joint_trajectory``, as :meth:`.Cell.follow` takes it.

    Args:
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n).
    """

    number, title = 0, "a motion that shows inertia and friction"
    laws: ClassVar[tuple[str, ...]] = ("joint_trajectory",)

    def __init__(self, arm: str, points: Matrix) -> None:
        super().__init__(seconds=float(points[-1, 0]) + AFTERWARDS)
        self._arm, self._points = arm, points

    def names(self, config: CellConfig) -> list[str]:
        """Return the arm that moves."""
        if self._arm not in config.arms:
            raise UnknownName("arm", self._arm, tuple(config.arms))
        return [self._arm]

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the arm where the motion begins."""
        (name,) = self.names(config)
        begin = self._points[0, 1 : 1 + config.arms[name].robot.n_joints]
        arm = with_start(config.arms[name], np.array(begin), None)
        return task_cell(config, {name: arm}, {"type": "joint_trajectory"}, {})

    def settle(self, cell: Cell, pace: PassTime) -> None:
        """Let the arm come to rest."""
        pace(100)

    def aim(self, cell: Cell, time: float) -> None:
        """Hand the whole motion over at its begin."""
        if time == 0.0:
            cell.follow(self._arm, self._points)
