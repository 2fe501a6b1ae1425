# SPDX-License-Identifier: Apache-2.0
"""Time of the node, and checks of ``/clock`` and of time stamps."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.clock import Clock
from rclpy.clock_type import ClockType

from multipanda_py.exceptions import TargetRejected

_MAX_READINGS = 5  # Maximum number of readings of both clocks for one stamp.
_MAX_READING_TIME = 100_000  # Maximum time between two clock readings of one stamp [ns].
MAX_AHEAD = 0.2
"""Maximum lead of a stamp over the node's time [s]. Clocks differ, and /clock has steps."""
CLOCK_TIMEOUT = 1.0
"""Time without a new value after which /clock is considered stopped [s, machine time]."""


class NodeClock:
    """Clock of the node: system time, or ``/clock`` with ``use_sim_time``.

    With ``use_sim_time``, the time is zero before the first message on ``/clock``, and stops when
    ``/clock`` stops.

    Args:
        steady: Monotonic clock of the machine [s].

    Thread: executor.
    """

    def __init__(self, clock: Clock, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._steady = clock, steady
        self._newest_ns, self._since = -1, 0.0
        self._may_warn = clock.clock_type == ClockType.ROS_TIME

    @property
    def nanoseconds(self) -> int:
        """Time of the node [ns]."""
        if self.comes_from_topic:
            return int(self._clock.now().nanoseconds)
        return time.time_ns()  # rclpy uses the same source, but takes longer.

    @property
    def comes_from_topic(self) -> bool:
        """True if ``use_sim_time`` is set."""
        return self._may_warn and bool(self._clock.ros_time_is_active)

    @property
    def has_started(self) -> bool:
        """True if the time is known."""
        return not self.comes_from_topic or self.nanoseconds > 0

    def worry(self) -> str:
        """Return why stamps of targets cannot be checked, or an empty string.

        Call it at least once per second, because it compares ``/clock`` with the previous call.
        """
        if not self.comes_from_topic:
            return ""
        now_ns, steady = self.nanoseconds, self._steady()
        if not now_ns:
            return "use_sim_time is true, but no message has arrived on /clock"
        if now_ns != self._newest_ns:
            self._newest_ns, self._since = now_ns, steady
        still = steady - self._since
        if still < CLOCK_TIMEOUT:
            return ""
        return f"use_sim_time is true, but /clock has not changed for {still:.1f} s"

    def check(self) -> int:
        """Return the time of the node [ns], and reject targets while it is unknown.

        Raises:
            TargetRejected: If ``/clock`` has not started or has stopped.
        """
        # System time needs no check, and ``worry`` would cost as much as reading a target.
        if not self.comes_from_topic:
            return time.time_ns()
        if worry := self.worry():
            raise TargetRejected(
                f"{worry}, so the age of targets is unknown. Publish /clock, or set "
                "use_sim_time to false"
            )
        return self.nanoseconds

    @staticmethod
    def check_age(now_ns: int, stamp_ns: int, max_age: float) -> None:
        """Reject a stamp that is too old or in the future.

        A zero stamp or a zero ``max_age`` disables the check.

        Args:
            now_ns: Time of the node from :meth:`check` [ns].
            stamp_ns: Time of the header [ns].
            max_age: Maximum age [s].

        Raises:
            TargetRejected: If the stamp is older than ``max_age``, or ahead of ``now_ns`` by more
                than ``MAX_AHEAD``.
        """
        if not stamp_ns or not max_age:
            return
        age = (now_ns - stamp_ns) * 1e-9
        if age > max_age:
            raise TargetRejected(
                f"header.stamp: {age:.3f} s old, allowed {max_age:g} s (max_target_age)"
            )
        ahead = min(MAX_AHEAD, max_age)
        if -age > ahead:
            raise TargetRejected(
                f"header.stamp: {-age:.3f} s in the future, allowed {ahead:g} s. "
                "Synchronise the clocks of both machines (chrony, ntp)"
            )

    def stamp(self, monotonic_ns: int) -> tuple[int, int]:
        """Return the stamp of a measurement: seconds, nanoseconds.

        With ``use_sim_time`` it is the present time on ``/clock``.

        Args:
            monotonic_ns: Time of the measurement, CLOCK_MONOTONIC [ns].
        """
        if self.comes_from_topic:
            # The age of the measurement is not subtracted. Between two steps of /clock, a message
            # with a larger age would get an earlier stamp than the one before.
            return divmod(max(0, self.nanoseconds), 1_000_000_000)
        # Read the clocks again if the thread was interrupted between the two readings, which would
        # make the stamp too early.
        for _ in range(_MAX_READINGS):
            before_ns = time.monotonic_ns()
            now_ns = self.nanoseconds
            after_ns = time.monotonic_ns()
            if after_ns - before_ns < _MAX_READING_TIME:
                break
        return divmod(max(0, now_ns - after_ns + monotonic_ns), 1_000_000_000)
