# SPDX-License-Identifier: Apache-2.0
"""Driver process of one arm, between the topics of an external controller manager and the loop.

The loop runs ``python -m multipanda_py.hardware.ros2_control.driver``. Arguments and messages are
those of :mod:`multipanda_py.hardware.franka.driver`.
"""

from __future__ import annotations

import math
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

import numpy as np
import pinocchio as pin

from multipanda_py.hardware.driver.driver_side import (
    DriverSide,
    collect_for_good,
    connect_to_loop,
    take_priority,
)
from multipanda_py.hardware.driver.memory import POSITIONS, TORQUES, DriverStartError, DriverWord
from multipanda_py.hardware.driver.torque_limiter import RAMP_TIME, TorqueLimiter
from multipanda_py.hardware.ros2_control.joint_states import (
    JointReading,
    StateInvalid,
    first_states,
)
from multipanda_py.hardware.ros2_control.settings import EFFORT, TopicDriverSettings, unpacked
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.realtime.system.scheduling import RESEND_THREAD_PREFIX, make_ordinary
from multipanda_py.robots.dynamics.external_torque import MomentumObserver

if TYPE_CHECKING:
    from multipanda_py.hardware.ros2_control.topics import Topics


MAX_WAIT = 0.005
"""Maximum wait for a message before other tasks run [s]."""
Limiter = TypeVar("Limiter")


class TopicControl(ABC, Generic[Limiter]):
    """Control of one arm over its topics, from the first state to the last command.

    The external controller repeats the last command forever. After its first command, this control
    therefore sends a command for every state. It brakes the arm after a fault, and if the loop
    does not respond or has ended.

    Args:
        loop: Connection to the loop.
        topics: Topics of the arm.
        reading: Reader of the joint states. Its newest state is published to the loop immediately.
        settings: Settings of the driver.

    Thread: main.
    """

    kind: ClassVar[int] = TORQUES
    """Kind of command that this control takes from the loop."""

    def __init__(
        self,
        loop: DriverSide,
        topics: Topics,
        reading: JointReading,
        settings: TopicDriverSettings,
    ) -> None:
        self._loop, self._topics, self._reading = loop, topics, reading
        self._limiter = self._make_limiter(settings)
        self._budget = int(settings.answer_budget * 1e9)
        self._sent: list[float] | None = None
        self._tau = [0.0] * len(reading.q)
        self._armed, self._moving = True, False
        self._valid_state_at = self._message_at = time.monotonic()
        self._last_command_time = 0.0
        self._state_error = ""  # Reason why the newest message is invalid; empty if it is valid.
        self._lost_states = False
        self._recoveries = loop.words[DriverWord.RECOVER]
        self._apply_settings(settings)
        topics.on_state = self._on_state
        self._publish_state(0.0)

    @staticmethod
    @abstractmethod
    def _make_limiter(settings: TopicDriverSettings) -> Limiter:
        """Return the limiter for all commands of this control."""

    @abstractmethod
    def _answer_state(self, period: float) -> None:
        """Publish the state that is ``period`` [s] newer than the last, and send a command."""

    @abstractmethod
    def _hold_without_state(self) -> None:
        """Brake or hold the arm while no valid state arrives."""

    @abstractmethod
    def _brake_before_exit(self) -> None:
        """Brake the arm before the driver ends. The last command keeps it at rest afterwards."""

    def _apply_settings(self, settings: TopicDriverSettings) -> None:
        """Apply settings that differ from the present ones in load and damping only."""
        self._settings = settings
        is_torque = settings.effort == "torque"
        self._observer = MomentumObserver(unpacked(settings)) if is_torque else None

    def run(self) -> None:
        """Run until the loop ends or stops the driver; then leave the arm at rest."""
        self._valid_state_at = time.monotonic()
        while not self._loop.ended():
            self._process_messages()
        self._brake_before_exit()

    def _process_messages(self) -> None:
        loop, words = self._loop, self._loop.words
        self._topics.spin(MAX_WAIT)
        loop.send_heartbeat()
        if words[DriverWord.RECOVER] != self._recoveries:
            self._recoveries = words[DriverWord.RECOVER]
            self._armed = True
            self._reading.forget()
        age = time.monotonic() - self._valid_state_at
        if age > self._settings.state_timeout:
            if self._state_error:
                self._report_fault("state_invalid", self._state_error)
            else:
                self._report_fault("robot_silent", self._silent(age))
            self._lost_states = True
            self._hold_without_state()
            self._reading.follow_back()
        for line in loop.lines():
            self._apply_settings(TopicDriverSettings.from_json(line))
            loop.send_message(settings="applied", text="")

    def _on_state(self, message: Any) -> None:
        """Answer a ``sensor_msgs/JointState`` with a command; report a fault if it is invalid."""
        self._message_at = time.monotonic()
        reading, before = self._reading, self._reading.time
        try:
            if not reading.receive(message):
                return
        except StateInvalid as error:
            self._state_error = str(error)
            self._report_fault("state_invalid", self._state_error)
            self._hold_without_state()
            return
        self._state_error = ""
        self._valid_state_at = self._message_at
        self._answer_state(reading.time - before)

    def _publish_state(self, period: float) -> int:
        """Publish the state that is ``period`` [s] newer than the last, and return its number."""
        reading = self._reading
        tau = self._tau
        exerted = [0.0] * len(tau)
        # Before the first command, closed brakes may carry the arm. The missing effort against
        # gravity would then look like an external torque.
        if self._observer is not None and reading.effort and self._sent is not None:
            tau, exerted = reading.effort, self._torques_on_environment(self._observer, period)
        return self._loop.publish(
            reading.time, self._moving * self.kind, 0, *reading.q, *reading.dq, *tau, *exerted
        )

    def _count_missing_command(self) -> float:
        """Return the time since the last command [s]; after RAMP_TIME, end the motion."""
        words = self._loop.words
        words[DriverWord.LATE] += 1
        age = self._reading.time - self._last_command_time
        if age >= RAMP_TIME and self._moving:
            self._moving = False
            if words[DriverWord.ENABLED] and not self._loop.ended():
                self._report_fault("loop_silent", (
                    f"no command from the control loop for {1e3 * age:.0f} ms; the arm "
                    "brakes. Recover it to continue"
                ))  # fmt: skip
        return age

    def _torques_on_environment(self, observer: MomentumObserver, period: float) -> list[float]:
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

    def _report_fault(self, kind: str, text: str) -> None:
        self._moving = False
        if not self._armed:
            return
        self._armed = False
        # Recovery requests from before this fault must not clear it.
        self._recoveries = self._loop.words[DriverWord.RECOVER]
        self._loop.send_message(fault=kind, text=f"{self._settings.peer}: {text}")

    def _silent(self, timeout: float) -> str:
        topic = self._settings.state_topic
        if self._reading.is_behind:
            return f"the stamps of {topic} have decreased; recover the arm to accept them"
        if time.monotonic() - self._message_at < self._settings.state_timeout:
            return f"the stamps of {topic} have not changed for {1e3 * timeout:.0f} ms"
        return (
            f"no state on {topic} for {1e3 * timeout:.0f} ms: check the external controller "
            "manager and the network"
        )


Numbers = list[float]


class RestingTorque:
    r"""Torque that holds an arm against gravity and brakes it, without a command of the loop.

    .. math:: \tau_0 = g(q) - D \dot q.

    Here :math:`g(q)` is the gravity torque, zero for an arm that compensates gravity itself, and D
    is a diagonal damping matrix.

    Args:
        model: Pinocchio model with tool, load and the direction of gravity.
        damping: Diagonal of D, (n,) [Nm s/rad].
        carries: True to include :math:`g(q)`, because the arm does not compensate gravity itself.

    Thread: the driver's.
    """

    def __init__(self, model: Any, damping: Sequence[float], *, carries: bool) -> None:
        self._model, self._carries = model, carries
        self._data = model.createData()
        self._damping = np.array(damping)

    def of(self, q: Sequence[float], dq: Sequence[float]) -> Numbers:
        """Return the torque for a state, (n,) [Nm].

        Args:
            q: Joint positions, (n,) [rad].
            dq: Joint velocities, (n,) [rad/s].
        """
        tau = -self._damping * dq
        if self._carries:
            tau += pin.computeGeneralizedGravity(self._model, self._data, np.array(q))
        numbers: Numbers = tau.tolist()
        return numbers


REST_SPEED = 0.001
"""Maximum speed of every joint of an arm at rest [rad/s]."""
EFFORT_STOP_TIME, ORPHAN_TIME = 1.0, 5.0
"""Timeouts for an arm to come to rest before its driver ends, on request or without a loop [s]."""
_monotonic_ns = time.monotonic_ns


class EffortControl(TopicControl[TorqueLimiter]):
    """Effort control of an arm.

    Without commands of the loop, the driver sends efforts that hold the arm against gravity and
    brake it. Without states, it sends efforts that hold the arm at its last known configuration.

    Thread: main.
    """

    @staticmethod
    def _make_limiter(settings: TopicDriverSettings) -> TorqueLimiter:
        return TorqueLimiter(settings.torque_limits, settings.torque_steps)

    def _apply_settings(self, settings: TopicDriverSettings) -> None:
        super()._apply_settings(settings)
        model = unpacked(settings)
        self._resting = RestingTorque(model, settings.damping, carries=settings.carries)

    def _answer_state(self, period: float) -> None:
        reading = self._reading
        resting = self._resting.of(reading.q, reading.dq)
        if self._armed and not self._moving and self._loop.may_execute() == TORQUES:
            self._begin_motion(resting)
        until = _monotonic_ns() + self._budget
        number = self._publish_state(period)
        if not self._moving:
            if self._sent is not None:
                self._send(self._limiter.silent(RAMP_TIME, self._sent, resting))
            return
        self._send(self._next_torque(number, until, resting))

    def _begin_motion(self, resting: list[float]) -> None:
        # Before the first command of this driver, the robot is assumed to hold the weight of the
        # arm: with the effort ``resting`` (``carries``), or by its own gravity compensation.
        if self._sent is None:
            self._sent = resting if self._settings.carries else [0.0] * len(resting)
        self._tau, self._moving, self._last_command_time = self._sent, True, self._reading.time
        self._limiter.start(self._sent)
        self._loop.start_motion()

    def _next_torque(self, state_number: int, until_ns: int, resting: list[float]) -> list[float]:
        """Return the limited torque of the loop, or one that decays to ``resting``, (n,) [Nm]."""
        words, limiter = self._loop.words, self._limiter
        sent = self._sent or resting
        desired = self._loop.wait(state_number, until_ns)
        if desired is not None:
            tau = limiter.answer(desired, sent)
            if tau is not None:
                words[DriverWord.ANSWERED] += 1
                self._last_command_time = self._reading.time
                return tau
            self._report_fault("torque_invalid", (
                f"the control loop sent the torque {list(desired)}, allowed finite numbers; "
                "the arm brakes. Recover it to continue"
            ))  # fmt: skip
        return limiter.silent(self._count_missing_command(), sent, resting)

    def _hold_without_state(self) -> None:
        """Change the effort towards the one that holds the last known configuration."""
        reading = self._reading
        if self._sent is None or not reading.q:
            return
        resting = self._resting.of(reading.q, [0.0] * len(reading.q))
        if self._sent != resting:
            self._send(self._limiter.silent(RAMP_TIME, self._sent, resting))

    def _send(self, tau: list[float]) -> None:
        self._tau = tau
        super()._send(tau)

    def _brake_before_exit(self) -> None:
        """Brake the arm until it is at rest or a timeout ends; then send the effort to hold it."""
        self._armed = self._moving = False
        if self._sent is None:
            return
        is_requested = self._loop.words[DriverWord.SHUTDOWN] != 0
        deadline = time.monotonic() + (EFFORT_STOP_TIME if is_requested else ORPHAN_TIME)
        while time.monotonic() < deadline:
            self._topics.spin(MAX_WAIT)
            moves = max(map(abs, self._reading.dq), default=0.0) > REST_SPEED
            if time.monotonic() - self._valid_state_at > self._settings.state_timeout:
                self._hold_without_state()
            resting = self._resting.of(self._reading.q, [0.0] * len(self._sent))
            gap = max(abs(a - b) for a, b in zip(self._sent, resting))
            if not moves and gap < min(self._settings.torque_steps):
                break
        self._send(self._resting.of(self._reading.q, [0.0] * len(self._sent)))


MAX_COMMAND_DISTANCE = 0.05
"""Maximum distance between arm and last command for a motion to start at that command [rad]."""
POSITION_STOP_TIME = 2.0
"""Timeout for the command to come to rest before the driver ends [s]."""


class TopicPositions(TopicControl[MotionLimiter]):
    """Position control of an arm; commands are limited in velocity, acceleration and jerk.

    Without commands of the loop, the commanded position brakes within these limits. The external
    controller then holds the last position. After a timeout of the states, nothing is sent. When
    states return, the next motion begins at rest at the measured position.

    Thread: main.
    """

    kind = POSITIONS

    @staticmethod
    def _make_limiter(settings: TopicDriverSettings) -> MotionLimiter:
        return MotionLimiter(settings.motion_limits, 1.0 / settings.rate)

    def _answer_state(self, period: float) -> None:
        if self._lost_states:
            self._lost_states, self._sent = False, None
        if self._armed and not self._moving and self._loop.may_execute() == POSITIONS:
            self._begin_motion()
        until = _monotonic_ns() + self._budget
        number = self._publish_state(period)
        if self._sent is None:
            return
        desired = self._loop.wait(number, until) if self._moving else None
        if desired is not None and not math.isfinite(sum(desired)):
            self._report_fault("position_invalid", (
                f"the control loop sent the positions {list(desired)}, allowed finite numbers; "
                "the arm brakes. Recover it to continue"
            ))  # fmt: skip
            desired = None
        if desired is None:
            self._limiter.brake()
            if self._moving:
                self._count_missing_command()
        else:
            self._limiter.follow(np.array(desired))
            self._loop.words[DriverWord.ANSWERED] += 1
            self._last_command_time = self._reading.time
        self._send(self._limiter.q.tolist())

    def _begin_motion(self) -> None:
        """Begin a motion at the last command, or at the measured position.

        The measured position is used without a command, and if the arm rests far from it.
        """
        limiter, q = self._limiter, np.array(self._reading.q)
        if self._sent is None or (
            limiter.at_rest and np.abs(limiter.q - q).max() > MAX_COMMAND_DISTANCE
        ):
            limiter.start(q)
        self._sent = limiter.q.tolist()
        self._moving, self._last_command_time = True, self._reading.time
        self._loop.start_motion(POSITIONS)

    def _hold_without_state(self) -> None:
        """Brake the commanded position after an invalid state.

        After a timeout of the states, stop it at once and send nothing.
        """
        limiter = self._limiter
        if self._lost_states:
            limiter.start(limiter.q)
        elif self._sent is not None and not limiter.at_rest:
            limiter.brake()
            self._send(limiter.q.tolist())

    def _brake_before_exit(self) -> None:
        self._armed = self._moving = False
        deadline = time.monotonic() + POSITION_STOP_TIME
        while not (self._sent is None or self._limiter.at_rest) and time.monotonic() < deadline:
            self._topics.spin(MAX_WAIT)
            if time.monotonic() - self._valid_state_at > self._settings.state_timeout:
                self._lost_states = True
                self._hold_without_state()


# Maximum duration of the only garbage collection, during which the driver sends no heartbeats [s].
_COLLECTION_TIME = 1.0


def kind_of_control(settings: TopicDriverSettings) -> type[EffortControl | TopicPositions]:
    """Return the class of control for the arm's command interface."""
    return EffortControl if settings.command_interface == EFFORT else TopicPositions


def main() -> NoReturn:
    """Connect to loop and topics, run the driver, and end the process. Thread: main."""
    loop = connect_to_loop()
    try:
        settings = TopicDriverSettings.from_json(loop.first_line())
        os.sched_setaffinity(0, settings.cpus)
        try:
            from multipanda_py.hardware.ros2_control.topics import Topics
        except ImportError as error:
            raise DriverStartError(
                f"ROS 2 cannot be imported: {error}. Install it and source its setup file",
                final=True,
            ) from None
        # Set before the middleware starts its threads, which inherit this priority.
        warnings = take_priority(settings.priority, settings.peer)
        topics = Topics(settings)
        control = kind_of_control(settings)(
            loop, topics, first_states(topics, settings, loop), settings
        )
        make_ordinary(
            RESEND_THREAD_PREFIX
        )  # Only now do the middleware's threads have their names.
    except DriverStartError as error:
        loop.send_message(error=f"{error}", final=error.final)
        os._exit(1)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        loop.send_message(
            error=f"{type(error).__name__}: {error}", final=not isinstance(error, OSError)
        )
        os._exit(1)
    loop.report_busy(_COLLECTION_TIME)
    collect_for_good()
    loop.report_busy(0.0)
    loop.send_message(ok=True, warnings=warnings, model={})
    try:
        control.run()
        topics.close()
    except Exception as error:
        text = f"{type(error).__name__}: {error}. Recover to start another driver"
        loop.send_message(fault="driver_error", text=f"{settings.peer}: {text}")
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
