# SPDX-License-Identifier: Apache-2.0
"""Start of the loop with real arms: warm-up cycles without commands, then with commands."""

from __future__ import annotations

import time
from collections.abc import Callable

from multipanda_py.loop.cycle import ControlLoop
from multipanda_py.loop.pacing import run

WARM_CYCLES = 200
"""Consecutive cycles on time, after which the loop is warmed up."""
ON_TIME = 5_000_000
"""Maximum time from one cycle to the next [ns]; a robot tolerates 20 ms."""
WARM_TIME = 3.0
"""Time after which commands start on a busy machine too [s]."""
BEGIN_TIME = 12.0
"""Maximum time until all arms execute commands, including further attempts [s]."""


def come_up(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run cycles until all arms execute commands or have a fault.

    The first cycles take milliseconds, as caches and pages are cold. Robots do not execute
    commands yet, and no timeout is a fault before :meth:`.ControlLoop.begin`.

    Thread: control.
    """
    if not any(backend.wake_fds for backend in loop.backends):
        loop.begin()
        loop.finish_start()
        return
    is_warm = Warmth(time.monotonic_ns())
    run(loop, period, lambda: keep_going() and not is_warm(time.monotonic_ns()))
    if not keep_going():
        return
    loop.begin()
    deadline = time.monotonic() + BEGIN_TIME
    run(loop, period, lambda: (
        keep_going() and not loop.has_begun() and time.monotonic() < deadline
    ))  # fmt: skip
    loop.finish_start()


class Warmth:
    """Counter of consecutive cycles on time.

    Args:
        now_ns: Time of the first cycle, CLOCK_MONOTONIC [ns].
    """

    def __init__(self, now_ns: int) -> None:
        self._last_ns, self._deadline_ns = now_ns, now_ns + int(WARM_TIME * 1e9)
        self._on_time = 0

    def __call__(self, now_ns: int) -> bool:
        """Return whether the loop is warmed up; call once per cycle."""
        gap, self._last_ns = now_ns - self._last_ns, now_ns
        self._on_time = self._on_time + 1 if gap < ON_TIME else 0
        return self._on_time >= WARM_CYCLES or now_ns > self._deadline_ns
