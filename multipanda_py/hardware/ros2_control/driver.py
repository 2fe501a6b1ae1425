# SPDX-License-Identifier: Apache-2.0
"""The driver of one arm that ROS 2 drives: a process between its topics and the loop.

Run as ``python -m multipanda_py.hardware.ros2_control.driver MEMORY STATE_EVENT TORQUE_EVENT
JOINTS`` as :mod:`multipanda_py.hardware.franka.driver` is, and speaks with the loop as that does.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pinocchio as pin

from multipanda_py.hardware.driver.driver_side import (
    collect_for_good,
    connect_to_loop,
    take_priority,
)
from multipanda_py.hardware.driver.memory import POSITIONS, TORQUES, DriverWord, Refused
from multipanda_py.hardware.driver.torque_limiter import RAMP_TIME, TorqueLimiter
from multipanda_py.hardware.ros2_control.joint_states import first_states
from multipanda_py.hardware.ros2_control.settings import EFFORT, TopicDriverSettings, unpacked
from multipanda_py.hardware.ros2_control.topic_control import TICK, TopicControl
from multipanda_py.planning.trajectory.motion_limiter import MotionLimiter
from multipanda_py.realtime.system.priority import SENDS_AGAIN, make_ordinary

Numbers = list[float]


class RestingTorque:
    r"""Carry an arm that does not carry itself, and brake it.

    .. math::
        \tau_0 = g(q) - D \dot q

    Args:
        model: Pinocchio's, with tool and load; gravity acts as its base stands.
        damping: Diagonal of D, (n,) [Nm s/rad].
        carries: Whether the arm has to be carried.

    Thread: of the driver.
    """

    def __init__(self, model: Any, damping: Sequence[float], *, carries: bool) -> None:
        self._model, self._carries = model, carries
        self._data = model.createData()
        self._damping = np.array(damping)

    def of(self, q: Sequence[float], dq: Sequence[float]) -> Numbers:
        """Return it for a state, (n,) [Nm]."""
        tau = -self._damping * dq
        if self._carries:
            tau += pin.computeGeneralizedGravity(self._model, self._data, np.array(q))
        numbers: Numbers = tau.tolist()
        return numbers


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


NEAR = 0.05
"""What an arm may be away from the command that the other side keeps, for motions to begin there
[rad]."""
POSITION_STOP_TIME = 2.0
"""For the command to come to rest before the driver ends [s]."""


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


_SETTLING_TIME = 1.0  # what is collected once, and never again [s]


def kind_of_control(settings: TopicDriverSettings) -> type[EffortControl | TopicPositions]:
    """Return what commands the arm."""
    return EffortControl if settings.command_interface == EFFORT else TopicPositions


def main() -> NoReturn:
    """Run a driver. Thread: main."""
    loop = connect_to_loop()
    try:
        settings = TopicDriverSettings.from_json(loop.first_line())
        os.sched_setaffinity(0, settings.cpus)
        try:
            from multipanda_py.hardware.ros2_control.topics import Topics
        except ImportError as error:
            raise Refused(f"ROS 2 cannot be imported: {error}", final=True) from None
        warnings = take_priority(settings.priority, settings.peer)  # the middleware inherits it
        topics = Topics(settings)
        control = kind_of_control(settings)(
            loop, topics, first_states(topics, settings, loop), settings
        )
        make_ordinary(SENDS_AGAIN)  # they have begun, and have their names
    except Refused as error:
        loop.say(error=f"{error}", final=error.final)
        os._exit(1)
    except (OSError, RuntimeError, ValueError, TypeError) as error:
        loop.say(error=f"{type(error).__name__}: {error}", final=not isinstance(error, OSError))
        os._exit(1)
    loop.busy(_SETTLING_TIME)
    collect_for_good()
    loop.busy(0.0)
    loop.say(ok=True, warnings=warnings, model={})
    try:
        control.run()
        topics.close()
    except Exception as error:
        text = f"{type(error).__name__}: {error}; recover to start another driver"
        loop.say(fault="driver_error", text=f"{settings.peer}: {text}")
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
