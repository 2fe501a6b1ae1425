# SPDX-License-Identifier: Apache-2.0
"""Tasks in free space: joints that swing, a tool that swings."""

from __future__ import annotations

import math

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.state import Vector
from multipanda_py.validation.task import PassTime, Task, task_cell, with_start

SWING = 2.5
"""Half a period of the swings [s]."""
SETTLING = 100
"""Cycles before they begin."""


class JointSwing(Task):
    r"""Swing joints 4 and 5 under joint impedance, as the manufacturer's example does.

    .. math:: q_{4,5}(t) = q_0 \pm \frac{\pi}{8} (1 - \cos(\pi t / 2.5\,\mathrm{s}))
    """

    number, title = 1, "joint impedance in free space"
    amplitude = math.pi / 8

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the first arm at its ready posture."""
        (name,) = self.names(config)
        robot = config.arms[name].robot
        self._arm, self._q = name, np.array(robot.ready)
        joints = [j for j in (3, 4) if j < robot.n_joints] or [robot.n_joints - 1]
        lower, upper = robot.limits.span
        self._swing: Vector = np.zeros(robot.n_joints)
        for joint in joints:  # to the side with more room
            up, down = upper[joint] - self._q[joint], self._q[joint] - lower[joint]
            room = max(up, down) - 0.1
            self._swing[joint] = math.copysign(min(self.amplitude, 0.5 * room), up - down)
        arm = with_start(config.arms[name], self._q, None)
        return task_cell(config, {name: arm}, {"type": "joint_impedance"}, {})

    def settle(self, cell: Cell, pace: PassTime) -> None:
        """Let the arm come to rest."""
        pace(SETTLING)

    def aim(self, cell: Cell, time: float) -> None:
        """Set the joints of an instant."""
        share = 1.0 - math.cos(math.pi * time / SWING)
        cell.set_target(self._arm, q=self._q + share * self._swing)


class ToolSwing(Task):
    r"""Swing the tool sideways under Cartesian impedance, with fixed orientation.

    .. math:: y(t) = y_0 + 0.05\,\mathrm{m}\,(1 - \cos(\pi t / 2.5\,\mathrm{s}))
    """

    number, title = 2, "Cartesian impedance in free space"
    amplitude = 0.05

    def scene(self, config: CellConfig) -> CellConfig:
        """Return the cell with the first arm at its ready posture."""
        (name,) = self.names(config)
        self._arm = name
        arm = with_start(config.arms[name], np.array(config.arms[name].robot.ready), None)
        return task_cell(config, {name: arm}, {"type": "cartesian_impedance"}, {})

    def settle(self, cell: Cell, pace: PassTime) -> None:
        """Let the arm come to rest, and take its pose for the middle."""
        pace(SETTLING)
        self._start = cell.pose(self._arm)

    def aim(self, cell: Cell, time: float) -> None:
        """Set the pose of an instant."""
        y = self.amplitude * (1.0 - math.cos(math.pi * time / SWING))
        goal = self._start.at(self._start.position + np.array([0.0, y, 0.0]))
        cell.set_target(self._arm, goal)
