# SPDX-License-Identifier: Apache-2.0
"""Answer the states of an arm with the loop's positions, and brake it without the loop."""

from __future__ import annotations

import math
import time

import numpy as np

from multipanda_py.drivers.memory import POSITIONS, DriverWord
from multipanda_py.planning.motion_limiter import MotionLimiter
from multipanda_py.ros2_control.driver_settings import TopicDriverSettings
from multipanda_py.ros2_control.topic_control import TICK, TopicControl

NEAR = 0.05
"""What an arm may be away from the command that the other side keeps, for motions to begin there
[rad]."""
POSITION_STOP_TIME = 2.0
"""For the command to come to rest before the driver ends [s]."""
_monotonic_ns = time.monotonic_ns


class TopicPositions(TopicControl[MotionLimiter]):
    """Command positions, bounded last in velocity, acceleration and jerk.

    What is sent without the loop brakes along these limits, and then stays where it is. Without
    states nothing is sent: the other side stands at the position that it was told last. When it is
    back it is told nothing either, wherever its arm may be now, until a motion begins: where the
    arm is, and at rest, as every one does.

    Thread: main.
    """

    kind = POSITIONS

    @staticmethod
    def _limiter_of(settings: TopicDriverSettings) -> MotionLimiter:
        return MotionLimiter(settings.motion_limits, 1.0 / settings.rate)

    def _answer(self, period: float) -> None:
        if self._away:
            self._away, self._sent = False, None
        if self._armed and not self._moving and self._loop.may_execute() == POSITIONS:
            self._begin()
        until = _monotonic_ns() + self._budget
        number = self._publish(period)
        if self._sent is None:
            return
        wanted = self._loop.wait(number, until) if self._moving else None
        if wanted is not None and not math.isfinite(sum(wanted)):
            self._fail("position_invalid", (
                f"the control loop sent the positions {list(wanted)}, allowed are finite numbers; "
                "the arm is braked; recover to go on"
            ))  # fmt: skip
            wanted = None
        if wanted is None:
            self._limiter.brake()
            if self._moving:
                self._notice_silence()
        else:
            self._limiter.follow(np.array(wanted))
            self._loop.words[DriverWord.ANSWERED] += 1
            self._answered = self._reading.time
        self._send(self._limiter.q.tolist())

    def _begin(self) -> None:
        """Begin a motion at the command that the other side has, if the arm is there."""
        limiter, q = self._limiter, np.array(self._reading.q)
        if self._sent is None or (limiter.at_rest and np.abs(limiter.q - q).max() > NEAR):
            limiter.start(q)
        self._sent = limiter.q.tolist()
        self._moving, self._answered = True, self._reading.time
        self._loop.begin_motion(POSITIONS)

    def _rest_blindly(self) -> None:
        """Brake, or leave the other side where it stands: it keeps what it got."""
        limiter = self._limiter
        if self._away:
            limiter.start(limiter.q)
        elif self._sent is not None and not limiter.at_rest:
            limiter.brake()
            self._send(limiter.q.tolist())

    def _leave(self) -> None:
        self._armed = self._moving = False
        deadline = time.monotonic() + POSITION_STOP_TIME
        while not (self._sent is None or self._limiter.at_rest) and time.monotonic() < deadline:
            self._topics.spin(TICK)
            if time.monotonic() - self._heard > self._settings.state_timeout:
                self._away = True
                self._rest_blindly()
