# SPDX-License-Identifier: Apache-2.0
"""Answer the states of an arm with the loop's torques, and keep it safe without the loop."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from multipanda_py.drivers.loop_connection import LoopConnection
from multipanda_py.drivers.memory import DriverWord
from multipanda_py.drivers.torque_limiter import RAMP_TIME, TorqueLimiter
from multipanda_py.dynamics.momentum_observer import MomentumObserver
from multipanda_py.ros2_control.driver_settings import TopicDriverSettings, unpacked
from multipanda_py.ros2_control.joint_states import JointReading, StateInvalid
from multipanda_py.ros2_control.resting import RestingTorque

if TYPE_CHECKING:
    from multipanda_py.ros2_control.topics import Topics

TICK = 0.005
"""Longest wait for a message before everything else is looked at [s]."""
REST_SPEED = 0.001
"""Of every joint of an arm that is left to itself [rad/s]."""
LEAVE_TIME, ORPHAN_TIME = 1.0, 5.0
"""For an arm to come to rest before its driver ends: asked to, or without a loop [s]."""
_monotonic_ns = time.monotonic_ns


class EffortControl:
    """Run one arm over its topics, from its second state to the last command.

    The other side keeps the last effort that it got. So once this has commanded, every state is
    answered: with the loop's torque, or with what carries and brakes the arm where the loop is
    silent, wants no more or has a fault. Without states that is sent unasked, for the last
    posture.

    Args:
        loop: The way to the loop.
        topics: Those of the arm.
        reading: What they have said last; it is given to the loop at once.
        settings: Of the driver.

    Thread: main.
    """

    def __init__(
        self,
        loop: LoopConnection,
        topics: Topics,
        reading: JointReading,
        settings: TopicDriverSettings,
    ) -> None:
        self._loop, self._topics, self._reading = loop, topics, reading
        self._limiter = TorqueLimiter(settings.torque_limits, settings.torque_steps)
        self._budget = int(settings.answer_budget * 1e9)
        self._sent: list[float] | None = None
        self._armed, self._moving = True, False
        self._heard = self._came = time.monotonic()
        self._answered = 0.0
        self._wrong = ""  # with the newest message
        self._recoveries = loop.words[DriverWord.RECOVER]
        self._use(settings)
        topics.on_state = self._on_state
        self._publish(0.0)

    def _use(self, settings: TopicDriverSettings) -> None:
        """Take settings; arm and topics stay."""
        self._settings, model = settings, unpacked(settings)
        self._resting = RestingTorque(model, settings.damping, carries=settings.carries)
        self._observer = MomentumObserver(model) if settings.effort == "torque" else None

    def run(self) -> None:
        """Serve until the loop wants no more, or is gone; then leave the arm at rest."""
        self._heard = time.monotonic()
        while not self._loop.ended():
            self._turn()
        self._leave()

    def _turn(self) -> None:
        """Serve what has come, and notice what has not."""
        loop, words = self._loop, self._loop.words
        self._topics.spin(TICK)
        loop.beat()
        if words[DriverWord.RECOVER] != self._recoveries:
            self._recoveries = words[DriverWord.RECOVER]
            self._armed = True
            self._reading.forget()
        silence = time.monotonic() - self._heard
        if silence > self._settings.state_timeout:
            if self._wrong:
                self._fail("state_invalid", self._wrong)
            else:
                self._fail("robot_silent", self._silent(silence))
            self._rest_blindly()
            self._reading.follow_back()
        for line in loop.lines():
            self._use(TopicDriverSettings.from_json(line))
            loop.say(settings="applied", text="")

    def _on_state(self, message: Any) -> None:
        """Answer a ``sensor_msgs/JointState``."""
        self._came = time.monotonic()
        reading, before = self._reading, self._reading.time
        try:
            if not reading.take(message):
                return
        except StateInvalid as error:
            self._wrong = str(error)
            self._fail("state_invalid", self._wrong)
            self._rest_blindly()
            return
        self._wrong = ""
        self._heard = self._came
        self._answer(reading.time - before)

    def _answer(self, period: float) -> None:
        """Publish the newest state to the loop, and send what it wants."""
        reading = self._reading
        resting = self._resting.of(reading.q, reading.dq)
        if self._armed and not self._moving and self._loop.may_execute():
            self._begin(resting)
        until = _monotonic_ns() + self._budget
        number = self._publish(period)
        if not self._moving:
            if self._sent is not None:
                self._send(self._limiter.silent(RAMP_TIME, self._sent, resting))
            return
        self._send(self._next_torque(number, until, resting))

    def _publish(self, period: float) -> int:
        """Hand the newest state to the loop; return its number."""
        reading = self._reading
        tau = self._sent or [0.0] * len(reading.q)
        felt = [0.0] * len(tau)
        if self._observer is not None and reading.effort and self._sent is not None:  # not brakes
            tau, felt = reading.effort, self._felt(self._observer, period)
        return self._loop.publish(
            reading.time, self._moving, 0, *reading.q, *reading.dq, *tau, *felt
        )

    def _begin(self, resting: list[float]) -> None:
        """Begin a motion at the torque that the arm has."""
        if self._sent is None:  # whoever had the arm has held it until now
            self._sent = resting if self._settings.carries else [0.0] * len(resting)
        self._moving, self._answered = True, self._reading.time
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
        words[DriverWord.LATE] += 1
        silence = self._reading.time - self._answered
        if silence >= RAMP_TIME and self._moving:
            self._moving = False
            if words[DriverWord.ENABLED] and not self._loop.ended():
                self._fail("loop_silent", (
                    f"the control loop has not answered for {1e3 * silence:.0f} ms; the arm is "
                    "braked; recover to go on"
                ))  # fmt: skip
        return limiter.silent(silence, sent, resting)

    def _felt(self, observer: MomentumObserver, period: float) -> list[float]:
        """Return what the arm does to its environment, (n,) [Nm]."""
        reading = self._reading
        if not 0.0 < period < self._settings.state_timeout:
            observer.restart()
            period = 0.0
        q, dq, tau = np.array(reading.q), np.array(reading.dq), np.array(reading.effort)
        numbers: list[float] = (-observer.update(q, dq, tau, period)).tolist()
        return numbers

    def _rest_blindly(self) -> None:
        """Without a state, carry the arm where it was: the other side keeps what it gets."""
        reading = self._reading
        if self._sent is None or not reading.q:
            return
        resting = self._resting.of(reading.q, [0.0] * len(reading.q))
        if self._sent != resting:
            self._send(self._limiter.silent(RAMP_TIME, self._sent, resting))

    def _send(self, tau: list[float]) -> None:
        self._sent = tau
        self._topics.send(tau)

    def _fail(self, kind: str, text: str) -> None:
        """Report a fault once, and do without the loop until asked to recover."""
        self._moving = False
        if not self._armed:
            return
        self._armed = False
        self._recoveries = self._loop.words[DriverWord.RECOVER]  # older requests were for others
        self._loop.say(fault=kind, text=f"{self._settings.peer}: {text}")

    def _silent(self, silence: float) -> str:
        topic = self._settings.state_topic
        if self._reading.is_behind:
            return f"the stamps of {topic} have gone back; recover to follow them"
        if time.monotonic() - self._came < self._settings.state_timeout:
            return f"the stamps of {topic} have stood still for {1e3 * silence:.0f} ms"
        return (
            f"no state on {topic} for {1e3 * silence:.0f} ms: check the controller manager of the "
            "other side and the network"
        )

    def _leave(self) -> None:
        """Brake the arm, and leave behind the effort that carries it where it stands."""
        self._armed = self._moving = False
        if self._sent is None:
            return
        is_asked = self._loop.words[DriverWord.SHUTDOWN] != 0
        deadline = time.monotonic() + (LEAVE_TIME if is_asked else ORPHAN_TIME)
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
