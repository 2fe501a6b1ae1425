# SPDX-License-Identifier: Apache-2.0
"""What time it is for the node, and whether that can be trusted."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.clock import Clock
from rclpy.clock_type import ClockType

from multipanda_py.exceptions import TargetRejected

_TRIES = 5
_AT_ONCE = 100_000  # between two looks at clocks [ns]
MAX_AHEAD = 0.2
"""How far a stamp may be ahead of the node's time [s]: clocks differ, /clock comes in steps."""
STANDS_STILL = 1.0
"""After how long without news /clock is taken to have stopped [s of the machine]."""


class NodeClock:
    """The node's clock: the machine's, or with ``use_sim_time`` what comes on ``/clock``.

    Without ``/clock`` the middleware's time is zero, and when it stops the time stands still:
    every stamp would look fresh for ever.

    Args:
        clock: Of the node.
        steady: The machine's time [s].

    Thread: executor.
    """

    def __init__(self, clock: Clock, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._steady = clock, steady
        self._newest_ns, self._since = -1, 0.0
        self._may_be_told = clock.clock_type == ClockType.ROS_TIME

    @property
    def nanoseconds(self) -> int:
        """The node's time [ns]."""
        if self.comes_from_topic:
            return int(self._clock.now().nanoseconds)
        return time.time_ns()  # what rclpy asks as well, on a longer way

    @property
    def comes_from_topic(self) -> bool:
        """Whether ``use_sim_time`` is true."""
        return self._may_be_told and bool(self._clock.ros_time_is_active)

    @property
    def has_begun(self) -> bool:
        """Whether there is a time at all."""
        return not self.comes_from_topic or self.nanoseconds > 0

    def worry(self) -> str:
        """Say why stamps cannot be judged, or nothing. To be asked at least once a second."""
        if not self.comes_from_topic:
            return ""
        now_ns, steady = self.nanoseconds, self._steady()
        if not now_ns:
            return "use_sim_time: true, but nothing has come on /clock"
        if now_ns != self._newest_ns:
            self._newest_ns, self._since = now_ns, steady
        still = steady - self._since
        if still < STANDS_STILL:
            return ""
        return f"use_sim_time: true, but /clock stands still since {still:.1f} s"

    def check(self) -> int:
        """Return the node's time [ns]; refuse whatever comes while nobody knows how late it is.

        Raises:
            TargetRejected: If ``/clock`` has not begun or has stopped.
        """
        if not self.comes_from_topic:  # asked once per target: it costs as much as reading one
            return time.time_ns()
        if worry := self.worry():
            raise TargetRejected(
                f"{worry}, so that no target's age is known; publish /clock, or set "
                "use_sim_time to false"
            )
        return self.nanoseconds

    @staticmethod
    def check_age(now_ns: int, stamp_ns: int, max_age: float) -> None:
        """Refuse a stamp too old or in the future; a zero stamp or ``max_age``: no one cares.

        A sender whose clock is ahead could be late for that long and nobody would see it.

        Args:
            now_ns: The node's time, as of :meth:`check` [ns].
            stamp_ns: Time of the header [ns].
            max_age: Allowed age [s].

        Raises:
            TargetRejected: If it is older, or newer than now by more than ``MAX_AHEAD``.
        """
        if not stamp_ns or not max_age:
            return
        age = (now_ns - stamp_ns) * 1e-9
        if age > max_age:
            raise TargetRejected(
                f"header.stamp: got one {age:.3f} s old, allowed {max_age:g} s (max_target_age)"
            )
        ahead = min(MAX_AHEAD, max_age)
        if -age > ahead:
            raise TargetRejected(
                f"header.stamp: got one {-age:.3f} s in the future, allowed {ahead:g} s: "
                "set the clocks of both machines by one another (chrony, ntp)"
            )

    def stamp(self, monotonic_ns: int) -> tuple[int, int]:
        """Return the stamp of something measured at a time of the machine.

        ``/clock`` has a pace of its own and comes in steps, so an age by the machine's time is
        not taken off it: stamps would go back between two steps.

        Args:
            monotonic_ns: When, by the monotonic clock [ns].

        Returns:
            Seconds and nanoseconds.
        """
        if self.comes_from_topic:
            return divmod(max(0, self.nanoseconds), 1_000_000_000)
        for _ in range(_TRIES):  # who is kept waiting in between would put the stamp too early
            before_ns = time.monotonic_ns()
            now_ns = self.nanoseconds
            after_ns = time.monotonic_ns()
            if after_ns - before_ns < _AT_ONCE:
                break
        return divmod(max(0, now_ns - after_ns + monotonic_ns), 1_000_000_000)
