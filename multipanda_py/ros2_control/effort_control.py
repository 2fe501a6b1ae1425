# SPDX-License-Identifier: Apache-2.0
"""Answer the states of an arm with the loop's torques, and keep it safe without the loop."""

from __future__ import annotations

import time

from multipanda_py.drivers.memory import TORQUES, DriverWord
from multipanda_py.drivers.torque_limiter import RAMP_TIME, TorqueLimiter
from multipanda_py.ros2_control.driver_settings import TopicDriverSettings, unpacked
from multipanda_py.ros2_control.resting import RestingTorque
from multipanda_py.ros2_control.topic_control import TICK, TopicControl

REST_SPEED = 0.001
"""Of every joint of an arm that is left to itself [rad/s]."""
EFFORT_STOP_TIME, ORPHAN_TIME = 1.0, 5.0
"""For an arm to come to rest before its driver ends: asked to, or without a loop [s]."""
_monotonic_ns = time.monotonic_ns


class EffortControl(TopicControl[TorqueLimiter]):
    """Command efforts.

    What is sent without the loop carries the arm and brakes it. Without states that is sent
    unasked, for the last posture.

    Thread: main.
    """

    @staticmethod
    def _limiter_of(settings: TopicDriverSettings) -> TorqueLimiter:
        return TorqueLimiter(settings.torque_limits, settings.torque_steps)

    def _use(self, settings: TopicDriverSettings) -> None:
        """Take settings; arm and topics stay."""
        super()._use(settings)
        model = unpacked(settings)
        self._resting = RestingTorque(model, settings.damping, carries=settings.carries)

    def _answer(self, period: float) -> None:
        """Publish the newest state to the loop, and send what it wants."""
        reading = self._reading
        resting = self._resting.of(reading.q, reading.dq)
        if self._armed and not self._moving and self._loop.may_execute() == TORQUES:
            self._begin(resting)
        until = _monotonic_ns() + self._budget
        number = self._publish(period)
        if not self._moving:
            if self._sent is not None:
                self._send(self._limiter.silent(RAMP_TIME, self._sent, resting))
            return
        self._send(self._next_torque(number, until, resting))

    def _begin(self, resting: list[float]) -> None:
        """Begin a motion at the torque that the arm has."""
        if self._sent is None:  # whoever had the arm has held it until now
            self._sent = resting if self._settings.carries else [0.0] * len(resting)
        self._tau, self._moving, self._answered = self._sent, True, self._reading.time
        self._limiter.start(self._sent)
        self._loop.begin_motion()

    def _next_torque(self, number: int, until: int, resting: list[float]) -> list[float]:
        """Return the loop's torque within bounds, or the way to the one without it."""
        words, limiter = self._loop.words, self._limiter
        sent = self._sent or resting
        wanted = self._loop.wait(number, until)
        if wanted is not None:
            tau = limiter.answer(wanted, sent)
            if tau is not None:
                words[DriverWord.ANSWERED] += 1
                self._answered = self._reading.time
                return tau
            self._fail("torque_invalid", (
                f"the control loop sent the torque {list(wanted)}, allowed are finite numbers; "
                "the arm is braked; recover to go on"
            ))  # fmt: skip
        return limiter.silent(self._notice_silence(), sent, resting)

    def _rest_blindly(self) -> None:
        """Without a state, carry the arm where it was: the other side keeps what it gets."""
        reading = self._reading
        if self._sent is None or not reading.q:
            return
        resting = self._resting.of(reading.q, [0.0] * len(reading.q))
        if self._sent != resting:
            self._send(self._limiter.silent(RAMP_TIME, self._sent, resting))

    def _send(self, tau: list[float]) -> None:
        self._tau = tau
        super()._send(tau)

    def _leave(self) -> None:
        """Brake the arm, and leave behind the effort that carries it where it stands."""
        self._armed = self._moving = False
        if self._sent is None:
            return
        is_asked = self._loop.words[DriverWord.SHUTDOWN] != 0
        deadline = time.monotonic() + (EFFORT_STOP_TIME if is_asked else ORPHAN_TIME)
        while time.monotonic() < deadline:
            self._topics.spin(TICK)
            moves = max(map(abs, self._reading.dq), default=0.0) > REST_SPEED
            if time.monotonic() - self._heard > self._settings.state_timeout:
                self._rest_blindly()
            resting = self._resting.of(self._reading.q, [0.0] * len(self._sent))
            gap = max(abs(a - b) for a, b in zip(self._sent, resting))
            if not moves and gap < min(self._settings.torque_steps):
                break
        self._send(self._resting.of(self._reading.q, [0.0] * len(self._sent)))
