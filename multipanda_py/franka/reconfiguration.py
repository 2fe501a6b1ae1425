# SPDX-License-Identifier: Apache-2.0
"""Other settings for a robot that may be under torque control, without ever waiting."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from multipanda_py.drivers.link import DriverLink
from multipanda_py.franka.driver_settings import DriverSettings
from multipanda_py.state import Vector

REST = 0.02
"""Speed of a joint below which an arm rests [rad/s]."""
REST_TIMEOUT = 2.0
"""For an arm that brakes to come to rest [s]."""
MOTION_TIMEOUT = 3.0
"""For a motion to end, and for the next one to start [s]."""
ANSWER_TIMEOUT = 6.0
"""For a robot to take settings, or for its driver to be found stuck and killed [s]."""

_Step = Callable[[], "str | None"]


class Reconfiguration:
    """End the motion, tell the robot, start the next motion: one step at a time.

    A robot takes settings only while no motion runs. That no motion is about to start is certain
    when a state has come that was sent after the driver was told to start none.

    Args:
        link: The arm's driver.
        dq: Live joint velocities of the arm, (7,) [rad/s].
        settings: What to tell.

    Attributes:
        recovers: Whether the arm is to be recovered afterwards; somebody has asked meanwhile.

    Thread: control.
    """

    def __init__(self, link: DriverLink, dq: Vector, settings: DriverSettings) -> None:
        self._link, self._dq, self._settings = link, dq, settings
        self._continues = self._faulted = False
        self._answer = ""
        self._seen = 0
        self.recovers = False
        self._go_on(self._rest, REST_TIMEOUT)

    def note_fault(self) -> None:
        """Do not wait for a motion: after a fault none starts by itself. Called when one comes."""
        self._faulted = True

    def progress(self) -> str | None:
        """Go on as far as possible.

        Returns:
            None as long as there is more to do, then an empty string if the robot has taken the
            settings, or why not.
        """
        return self._step()

    def _go_on(self, step: _Step, timeout: float) -> None:
        self._step = step
        self._deadline = time.monotonic() + timeout

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _rest(self) -> str | None:
        """Wait for an arm that brakes."""
        link = self._link
        if not link.is_alive:
            return "its driver is not running; recover the arm first"
        speed = float(np.abs(self._dq).max())
        if link.executing and speed > REST:
            if not self._is_late():
                return None
            return f"the arm still moves: got {speed:.3f} rad/s, allowed {REST:g} rad/s"
        self._continues = link.executing
        self._seen = link.suspend()
        self._go_on(self._end_motion, MOTION_TIMEOUT)
        return None

    def _end_motion(self) -> str | None:
        link = self._link
        self._continues |= link.executing
        if not link.is_alive:
            return self._finish("its driver has gone before it was told; recover the arm first")
        if self._is_late():
            return self._finish(f"its motion has not ended within {MOTION_TIMEOUT:g} s")
        if link.executing or link.number <= self._seen:
            return None
        link.watch.answers.clear()
        link.watch.tell(self._settings)
        self._go_on(self._listen, ANSWER_TIMEOUT)
        return None

    def _listen(self) -> str | None:
        link = self._link
        if link.watch.answers:
            outcome, text = link.watch.answers.pop()
            return self._finish("" if outcome == "applied" else text)
        if not link.is_alive or self._is_late():
            return self._finish("its driver has not answered; recover the arm first")
        return None

    def _finish(self, answer: str) -> str | None:
        """Let torques be executed again, and wait until they are, if they were before."""
        self._answer = answer
        if not self._faulted:
            self._link.resume()
        self._go_on(self._start_motion, MOTION_TIMEOUT)
        return self._start_motion()

    def _start_motion(self) -> str | None:
        link = self._link
        waits = self._continues and not self._faulted and link.is_alive and not self._is_late()
        return None if waits and not link.executing else self._answer
