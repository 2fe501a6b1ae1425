# SPDX-License-Identifier: Apache-2.0
"""A motion of a data set as a task of one of several laws."""

from __future__ import annotations

from typing import Any

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.planning.quintic import evaluate
from multipanda_py.state import Matrix
from multipanda_py.validation.motion_task import MotionTask
from multipanda_py.validation.task import task_cell, with_start

LAWS = ("joint_trajectory", "joint_impedance", "joint_position")
"""By which a motion can be done; the first is the default."""
STREAMED = "joint_impedance"
"""Which of them is told one posture after another."""
PACE = {"joint_acceleration": 1.0, "joint_speed": 1.0, "smoothing": 0.1, "share": 1.0}
"""Of a governor that is to get out of the way of motions at up to 0.6 of the speed limits."""
CATCHES_UP = 0.8
"""For a law that bounds what it is told, beyond the end of the motion [s]."""


def known_law(law: str, option: str) -> str:
    """Return a law that motions can be done by.

    Raises:
        ValidationRefused: If it is none.
    """
    if law not in LAWS:
        raise ValidationRefused(f"{option}: got {law!r}, allowed {', '.join(LAWS)}")
    return law


def law_section(law: str) -> dict[str, Any]:
    """Return the section of a law; streamed postures may move as fast as joints may."""
    if law != STREAMED:
        return {"type": law}
    return {"type": law, "params": {"governor": dict(PACE)}}


class LawMotion(MotionTask):
    """Go through a motion by a law: told as a whole, or one posture after another.

    ``joint_trajectory`` follows the whole compliantly, ``joint_position`` by the position
    controller of the robot itself; ``joint_impedance`` is told where to be now, every 10 ms.

    Args:
        arm: Name of the arm.
        points: Times, positions, velocities and accelerations, (p, 1 + 3 n).
        law: One of :data:`LAWS`.
    """

    laws = LAWS

    def __init__(self, arm: str, points: Matrix, law: str = LAWS[0]) -> None:
        super().__init__(arm, points)
        self.law = known_law(law, "law")
        self.seconds += CATCHES_UP * (law == STREAMED)

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the arm where the motion begins, and the law."""
        (name,) = self.names(config)
        begin = self._points[0, 1 : 1 + config.arms[name].robot.n_joints]
        arm = with_start(config.arms[name], np.array(begin), None)
        return task_cell(config, {name: arm}, law_section(self.law), {})

    def aim(self, cell: Cell, time: float) -> None:
        """Hand over the whole at its begin, or the posture of an instant."""
        if self.law != STREAMED:
            super().aim(cell, time)
            return
        now = min(time, float(self._points[-1, 0]))
        q, dq, _ = evaluate(self._points, np.array([now]))[0]
        cell.set_target(self._arm, q=q, dq=dq)
