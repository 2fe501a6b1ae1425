# SPDX-License-Identifier: Apache-2.0
"""Reader of the joint states of an arm from a topic, with checks of names, numbers and jumps."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from multipanda_py.hardware.driver.driver_side import DriverSide
from multipanda_py.hardware.driver.memory import DriverStartError
from multipanda_py.hardware.ros2_control.settings import TopicDriverSettings

if TYPE_CHECKING:
    from multipanda_py.hardware.ros2_control.topics import Topics


MAX_POSITION_JUMP = 0.1
"""Position change that is allowed in addition to motion at twice the speed limit [rad, or m]."""


class StateInvalid(Exception):
    """Error for a message on the state topic that cannot be a state of the arm."""


class StateMessage(Protocol):
    """Interface of a ``sensor_msgs/JointState``, so that this module does not import ROS."""

    header: Any
    name: Sequence[str]
    position: Sequence[float]
    velocity: Sequence[float]
    effort: Sequence[float]


class JointReading:
    """Newest state of the joints of an arm, from base to flange.

    A position that a joint cannot have reached since its last state is a jump, and is rejected.

    Args:
        names: Names of the joints, n.
        speed_limits: Speed limits, (n,) [rad/s, or m/s]; empty to accept jumps.
        endless: True for each continuous joint, (n,), whose position may change by full rotations.
        max_gap: Maximum time between two states that counts for the allowed displacement [s].
            After a longer gap, a larger displacement is rejected until :meth:`forget`.
        slides: True for each prismatic joint, (n,).

    Attributes:
        time: Time of the state [s].
        q: Positions, (n,) [rad].
        dq: Velocities, (n,) [rad/s].
        effort: Efforts of the message, (n,); empty without efforts.
    """

    def __init__(
        self,
        names: Sequence[str],
        speed_limits: Sequence[float] = (),
        endless: Sequence[bool] = (),
        max_gap: float = math.inf,
        slides: Sequence[bool] = (),
    ) -> None:
        self._required_joints = list(names)
        self._fastest = list(speed_limits) or [math.inf] * len(names)
        self._endless = list(endless) or [False] * len(names)
        self._longest = max_gap
        self._units = ["m" if one else "rad" for one in slides] or ["rad"] * len(names)
        # Stamp of the last message [s]. Messages can arrive out of order, so that it is older than
        # the newest state at ``time``.
        self._stamp = -math.inf
        self._before: list[float] = []  # Last positions; empty if unknown.
        self._names: list[str] = []
        self._indices: list[int] = []
        self.time = -math.inf
        self.q: list[float] = []
        self.dq: list[float] = []
        self.effort: list[float] = []

    def receive(self, message: StateMessage) -> bool:
        """Read a message, in which joints may have any order.

        Returns:
            True if the message is a new state of this arm. False if it has only other joints, or a
            time stamp that is not newer.

        Raises:
            StateInvalid: If joints or numbers are missing or not finite, or a joint has moved too
                far since the last state. The reading stays unchanged.
        """
        names, position = message.name, message.position
        velocity, effort = message.velocity, message.effort
        if names != self._names and not self._find_joints(names):
            return False
        stamp = message.header.stamp
        self._stamp = time = stamp.sec + 1e-9 * stamp.nanosec
        if time <= self.time:
            return False
        size = len(self._names)
        for quantity, numbers, allowed in (
            ("positions", position, (size,)),
            ("velocities", velocity, (size,)),
            ("efforts", effort, (0, size)),
        ):
            if len(numbers) not in allowed:
                raise StateInvalid(
                    f"got {len(numbers)} {quantity} of {size} joints; every joint needs one"
                )
        indices = self._indices
        q, dq = [position[i] for i in indices], [velocity[i] for i in indices]
        torque = [effort[i] for i in indices] if len(effort) else []
        if not math.isfinite(sum(q) + sum(dq) + sum(torque)):
            raise StateInvalid(f"got q {q}, dq {dq}, effort {torque}, allowed finite numbers only")
        self._check_displacement(q, time - self.time)
        self.time, self.q, self.dq, self.effort = time, q, dq, torque
        self._before = q
        return True

    @property
    def is_behind(self) -> bool:
        """True if the last message has an older time stamp than the last accepted state."""
        return self._stamp < self.time

    def follow_back(self) -> None:
        """Continue from the last message if its clock was set back, without a check for jumps."""
        if self.is_behind:
            self.time, self._before = self._stamp, []

    def forget(self) -> None:
        """Accept the next state without a check for jumps, after a recovery."""
        self._before = []

    def _check_displacement(self, q: Sequence[float], period: float) -> None:
        each = zip(
            self._required_joints, q, self._before, self._fastest, self._endless, self._units
        )
        for name, now, before, fastest, is_endless, unit in each:
            displacement = math.remainder(now - before, math.tau) if is_endless else now - before
            max_displacement = MAX_POSITION_JUMP + 2.0 * fastest * min(period, self._longest)
            if abs(displacement) > max_displacement:
                raise StateInvalid(
                    f"joint {name} moved from {before:.4g} to {now:.4g} {unit} in "
                    f"{1e3 * period:.3g} ms, allowed {max_displacement:.3g} {unit}"
                )

    def _find_joints(self, names: Sequence[str]) -> bool:
        """Return False if a message names no joint of the arm."""
        missing = [name for name in self._required_joints if name not in names]
        if len(missing) == len(self._required_joints):
            return False
        if missing or len(set(names)) < len(names):
            raise StateInvalid(
                f"got joints {list(names)}; each of {self._required_joints} must be present "
                "exactly once, in any order"
            )
        self._names = list(names)
        self._indices = [self._names.index(name) for name in self._required_joints]
        return True


MAX_WAIT = 0.005
"""Maximum wait for a message before the loop is checked [s]."""
CONNECT_TIMEOUT = 8.0
"""Timeout for both topics and the first states [s]."""
RATE_STATES = 25
"""Number of states from which the rate is measured."""
RATE_RANGE = (0.8, 1.25)
"""Range of the measured rate, as fractions of the configured one."""


def first_states(topics: Topics, settings: TopicDriverSettings, loop: DriverSide) -> JointReading:
    """Wait until states arrive at the right rate, and until the command topic has a subscriber.

    Args:
        topics: Topics of the arm.
        settings: Settings of the driver.
        loop: Connection to the loop, which gets heartbeats during the wait.

    Returns:
        Reader with the newest state.

    Raises:
        DriverStartError: After a timeout, or if joints or rate of the states are wrong.
    """
    reading = JointReading(
        settings.joint_names,
        settings.velocity_limits,
        settings.endless,
        settings.state_timeout,
        settings.slides,
    )
    times, errors = [], []
    n_messages = 0

    def take(message: Any) -> None:
        nonlocal n_messages
        n_messages += 1
        try:
            if reading.receive(message):
                times.append(reading.time)
        except StateInvalid as error:
            errors.append(str(error))

    topics.on_state = take
    deadline = time.monotonic() + CONNECT_TIMEOUT
    while len(times) < RATE_STATES or not topics.listeners():
        topics.spin(MAX_WAIT)
        loop.send_heartbeat()
        if errors:
            raise DriverStartError(f"{settings.state_topic}: {errors[0]}", final=True)
        if loop.ended():
            raise DriverStartError("the loop has ended")
        if time.monotonic() > deadline:
            raise DriverStartError(_reject_reason(topics, settings, n_messages))
    rate = 1.0 / float(np.median(np.diff(times[-RATE_STATES:])))
    if not RATE_RANGE[0] < rate / settings.rate < RATE_RANGE[1]:
        raise DriverStartError(
            f"{settings.state_topic}: got {rate:.4g} states per second according to their stamps, "
            f"but the arm's rate is {settings.rate:g}. Set rate of the arm and cell.rate to the "
            "rate of the states, or change the update rate of the external controller manager",
            final=True,
        )
    return reading


def _reject_reason(topics: Topics, settings: TopicDriverSettings, n_messages: int) -> str:
    if not topics.publishers():
        return (
            f"{settings.state_topic} has no publisher: start the external controller manager "
            "with its joint_state_broadcaster, and compare ROS_DOMAIN_ID"
        )
    if not topics.listeners():
        return (
            f"{settings.command_topic} has no subscriber: activate the "
            f"{settings.command_interface} controller of the external controller manager"
        )
    return (
        f"{settings.state_topic}: got {n_messages} messages in {CONNECT_TIMEOUT:g} s, allowed "
        f"{RATE_STATES} or more with increasing stamps of joints {settings.joint_names}"
    )
