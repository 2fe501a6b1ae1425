# SPDX-License-Identifier: Apache-2.0
"""Measured states and commands that come late."""

from __future__ import annotations

from collections import deque

import numpy as np

from multipanda_py.simulation.drive import Measured, Stage
from multipanda_py.simulation.sim_robot import SimRobot
from multipanda_py.state import Vector


class Delay(Stage):
    r"""Show the state of some cycles ago, :math:`x_{seen}(t) = x(t - \Delta)`.

    Args:
        cycles: How many.

    Attributes:
        past: Measured states that are not yet due, oldest first.

    Thread: control.
    """

    CHANGING = ("past",)

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self.past: deque[tuple[Vector, ...]] = deque()

    def measure(self, state: Measured) -> None:
        """Replace a measured state by the one that is due."""
        now = (state.q, state.dq, state.tau_J, state.tau_ext)
        self.past.append(tuple(part.copy() for part in now))
        seen = self.past.popleft() if len(self.past) > self._cycles else self.past[0]
        for part, value in zip(now, seen):
            part[:] = value


class CommandDelay(Stage):
    r"""Execute the torque of some cycles ago, :math:`\tau_m(t) = \tau(t - \Delta)`; none before.

    What is under way when the robot stops is never executed, also once it is recovered.

    Args:
        cycles: How many.
        joints: n.
        robot: Of the arm.

    Attributes:
        past: Torques that are under way, (cycles, n) [Nm].
        at: Row of ``past`` that is due next.

    Thread: control.
    """

    CHANGING = ("past", "at")

    def __init__(self, cycles: int, joints: int, robot: SimRobot) -> None:
        self.past: Vector = np.zeros((cycles, joints))
        self._due: Vector = np.zeros(joints)
        self.at, self._robot = 0, robot

    def execute(self, tau: Vector) -> None:
        """Replace commanded torques (n,) [Nm] by those that are due, in place."""
        if self._robot.stopped:
            self.past[:] = tau
        due, place = self._due, self.past[self.at]
        due[:] = place
        place[:] = tau
        tau[:] = due
        self.at = (self.at + 1) % len(self.past)
