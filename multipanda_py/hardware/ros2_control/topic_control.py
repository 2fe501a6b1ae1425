# SPDX-License-Identifier: Apache-2.0
"""Base class of controls that answer the states of an arm over topics."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np

from multipanda_py.hardware.driver.driver_side import DriverSide
from multipanda_py.hardware.driver.memory import TORQUES, DriverWord
from multipanda_py.hardware.driver.torque_limiter import RAMP_TIME
from multipanda_py.hardware.ros2_control.joint_states import JointReading, StateInvalid
from multipanda_py.hardware.ros2_control.settings import TopicDriverSettings, unpacked
from multipanda_py.robots.dynamics.external_torque import MomentumObserver

if TYPE_CHECKING:
    from multipanda_py.hardware.ros2_control.topics import Topics

MAX_WAIT = 0.005
"""Maximum wait for a message before other tasks run [s]."""
Limiter = TypeVar("Limiter")


class TopicControl(ABC, Generic[Limiter]):
    """Control of one arm over its topics, from its second state to the last command.

    The external controller keeps the last command. After the first command, every state is
    therefore answered. The command is that of the loop. If the loop does not respond, has ended or
    has a fault, the command brakes the arm.

    Args:
        loop: Connection to the loop.
        topics: Topics of the arm.
        reading: Newest state from the topics, published to the loop at once.
        settings: Settings of the driver.

    Thread: main.
    """

    kind: ClassVar[int] = TORQUES
    """Kind of command."""

    def __init__(
        self,
        loop: DriverSide,
        topics: Topics,
        reading: JointReading,
        settings: TopicDriverSettings,
    ) -> None:
        self._loop, self._topics, self._reading = loop, topics, reading
        self._limiter = self._limiter_of(settings)
        self._budget = int(settings.answer_budget * 1e9)
        self._sent: list[float] | None = None
        self._tau = [0.0] * len(reading.q)
        self._armed, self._moving = True, False
        self._latest = self._came = time.monotonic()
        self._answered = 0.0
        self._wrong = ""  # Error of the newest message.
        self._moves_alone = False
        self._recoveries = loop.words[DriverWord.RECOVER]
        self._use(settings)
        topics.on_state = self._on_state
        self._publish(0.0)

    @staticmethod
    @abstractmethod
    def _limiter_of(settings: TopicDriverSettings) -> Limiter:
        """Return the limiter of every command; it outlives changes of settings."""

    @abstractmethod
    def _answer(self, period: float) -> None:
        """Publish the newest state to the loop, and send its command."""

    @abstractmethod
    def _act_without_state(self) -> None:
        """Brake or carry the arm while no valid state arrives."""

    @abstractmethod
    def _leave(self) -> None:
        """Brake the arm, and finally send a command that keeps it where it stands."""

    def _use(self, settings: TopicDriverSettings) -> None:
        """Use new settings, with the same arm and topics."""
        self._settings = settings
        is_torque = settings.effort == "torque"
        self._observer = MomentumObserver(unpacked(settings)) if is_torque else None

    def run(self) -> None:
        """Run until the loop ends or stops the driver; then leave the arm at rest."""
        self._latest = time.monotonic()
        while not self._loop.ended():
            self._process_messages()
        self._leave()

    def _process_messages(self) -> None:
        """Process new messages and requests, and check the timeouts."""
        loop, words = self._loop, self._loop.words
        self._topics.spin(MAX_WAIT)
        loop.send_heartbeat()
        if words[DriverWord.RECOVER] != self._recoveries:
            self._recoveries = words[DriverWord.RECOVER]
            self._armed = True
            self._reading.forget()
        age = time.monotonic() - self._latest
        if age > self._settings.state_timeout:
            if self._wrong:
                self._fail("state_invalid", self._wrong)
            else:
                self._fail("robot_silent", self._silent(age))
            self._moves_alone = True
            self._act_without_state()
            self._reading.follow_back()
        for line in loop.lines():
            self._use(TopicDriverSettings.from_json(line))
            loop.send_message(settings="applied", text="")

    def _on_state(self, message: Any) -> None:
        """Answer a ``sensor_msgs/JointState``."""
        self._came = time.monotonic()
        reading, before = self._reading, self._reading.time
        try:
            if not reading.receive(message):
                return
        except StateInvalid as error:
            self._wrong = str(error)
            self._fail("state_invalid", self._wrong)
            self._act_without_state()
            return
        self._wrong = ""
        self._latest = self._came
        self._answer(reading.time - before)

    def _publish(self, period: float) -> int:
        """Publish the newest state to the loop; return its number."""
        reading = self._reading
        tau = self._tau
        measured = [0.0] * len(tau)
        # Before the first command, brakes may carry the arm. Measured efforts would then be
        # misleading.
        if self._observer is not None and reading.effort and self._sent is not None:
            tau, measured = reading.effort, self._exerted_torques(self._observer, period)
        return self._loop.publish(
            reading.time, self._moving * self.kind, 0, *reading.q, *reading.dq, *tau, *measured
        )

    def _check_timeout(self) -> float:
        """Count a state without a command of the loop; end the motion after :data:`.RAMP_TIME`.

        Returns:
            Time since the last command [s].
        """
        words = self._loop.words
        words[DriverWord.LATE] += 1
        age = self._reading.time - self._answered
        if age >= RAMP_TIME and self._moving:
            self._moving = False
            if words[DriverWord.ENABLED] and not self._loop.ended():
                self._fail("loop_silent", (
                    f"no command from the control loop for {1e3 * age:.0f} ms; the arm "
                    "brakes. Recover it to continue"
                ))  # fmt: skip
        return age

    def _exerted_torques(self, observer: MomentumObserver, period: float) -> list[float]:
        """Return the torques that the arm exerts on its environment, (n,) [Nm]."""
        reading = self._reading
        if not 0.0 < period < self._settings.state_timeout:
            observer.resume()
            period = 0.0
        q, dq, tau = np.array(reading.q), np.array(reading.dq), np.array(reading.effort)
        numbers: list[float] = (-observer.update(q, dq, tau, period)).tolist()
        return numbers

    def _send(self, command: list[float]) -> None:
        self._sent = command
        self._topics.send(command)

    def _fail(self, kind: str, text: str) -> None:
        """Report a fault once, and ignore the loop until the next recovery request."""
        self._moving = False
        if not self._armed:
            return
        self._armed = False
        # Requests for older faults are skipped.
        self._recoveries = self._loop.words[DriverWord.RECOVER]
        self._loop.send_message(fault=kind, text=f"{self._settings.peer}: {text}")

    def _silent(self, timeout: float) -> str:
        topic = self._settings.state_topic
        if self._reading.is_behind:
            return f"the stamps of {topic} have decreased; recover the arm to accept them"
        if time.monotonic() - self._came < self._settings.state_timeout:
            return f"the stamps of {topic} have not changed for {1e3 * timeout:.0f} ms"
        return (
            f"no state on {topic} for {1e3 * timeout:.0f} ms: check the external controller "
            "manager and the network"
        )
