# SPDX-License-Identifier: Apache-2.0
"""What an arm feels over a while, and whether that is an error of its estimate."""

from __future__ import annotations

import numpy as np

from multipanda_py.loop.arm import Arm
from multipanda_py.state import Vector

WINDOW = 0.5
"""Over which the estimate is averaged [s]."""
SPEED = 0.05
"""Measured speed of any joint from which an arm is not at rest: noise stays below [rad/s]."""
TRAVEL = 2e-3
"""Way of any joint within the window from which an arm is not at rest [rad]."""
SPREAD = 0.5
"""Standard deviation in the window from which something is going on: noise stays below [Nm]."""


class TareMeasurement:
    """The estimate of one arm over a window, and why it may not count.

    Args:
        number: Of the record that asked for it.
        arm: The arm, under its hold.
        cycles: Length of the window.

    Thread: control.
    """

    def __init__(self, number: int, arm: Arm, cycles: int) -> None:
        self.number = number
        self._arm, self._left, self._cycles = arm, cycles, cycles
        self._start = arm.state.q.copy()
        self._largest = np.array(arm.model.arm.robot.figure("tare_torque"))
        self._sum, self._squares = np.zeros((2, arm.state.n_joints))

    def add(self, felt: Vector) -> str:
        """Take in one estimate (n,) [Nm]; return why the measurement has failed, if it has."""
        state = self._arm.state
        speed, travel = np.abs(state.dq), np.abs(state.q - self._start)
        if not speed.max() <= SPEED or not travel.max() <= TRAVEL:
            joint = int(np.argmax(speed / SPEED + travel / TRAVEL))
            unit = state.limits.unit(joint)
            return (
                f"{state.name} moves: joint {joint + 1} at {speed[joint]:.3f} {unit}/s, "
                f"{travel[joint] * 1e3:.1f} m{unit} from where it was, allowed {SPEED:g} {unit}/s "
                f"and {TRAVEL * 1e3:g} m{unit}; tare it at rest"
            )
        self._sum += felt
        self._squares += felt * felt
        self._left -= 1
        return ""

    @property
    def is_complete(self) -> bool:
        """Whether the window is full."""
        return self._left <= 0

    def judge(self) -> tuple[Vector, str]:
        """Return the mean (n,) [Nm], and why it is not an error of the estimate, if it is not."""
        mean = self._sum / self._cycles
        spread = np.sqrt(np.maximum(self._squares / self._cycles - mean * mean, 0.0))
        name = self._arm.state.name
        if not (spread <= SPREAD).all():
            joint = int(np.argmax(spread))
            unit = self._arm.state.limits.unit(joint, "Nm")
            return mean, (
                f"what {name} feels changes: joint {joint + 1} by {spread[joint]:.2f} {unit}, "
                f"allowed {SPREAD:g} {unit} (standard deviation); tare it while nothing touches it"
            )
        if not (np.abs(mean) <= self._largest).all():
            joint = int(np.argmax(np.abs(mean) / self._largest))
            unit = self._arm.state.limits.unit(joint, "Nm")
            return mean, (
                f"{name} feels {mean[joint]:.2f} {unit} at joint {joint + 1}, allowed "
                f"{self._largest[joint]:g} {unit}: more than sensors and model explain; take away "
                "what it touches, or tell the robot what it carries (load_mass)"
            )
        return mean, ""
