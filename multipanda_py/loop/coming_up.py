# SPDX-License-Identifier: Apache-2.0
"""The first cycles beside real arms: without commands until the loop is warm, then with them."""

from __future__ import annotations

import time
from collections.abc import Callable

from multipanda_py.loop.cycle import ControlLoop
from multipanda_py.loop.pacing import run

WARM_CYCLES = 200
"""Consecutive cycles on time after which the loop is warm."""
ON_TIME = 5_000_000
"""Maximum time from one cycle to the next [ns]; a robot bears 20 ms."""
WARM_TIME = 3.0
"""Time after which arms begin in any case: a machine may be busy for good [s]."""
BEGIN_TIME = 12.0
"""Time for all arms to execute commands, with further attempts; the start then ends anyway [s]."""


def come_up(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run cycles until the arms execute commands, or have a fault.

    Caches, pages and branches of the first cycles cost milliseconds. Robots that execute nothing
    yet do not notice, and no silence is a fault before :meth:`.ControlLoop.begin`.

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
    """Count of consecutive cycles on time.

    Args:
        now_ns: Time of the first cycle, CLOCK_MONOTONIC [ns].
    """

    def __init__(self, now_ns: int) -> None:
        self._last_ns, self._deadline_ns = now_ns, now_ns + int(WARM_TIME * 1e9)
        self._on_time = 0

    def __call__(self, now_ns: int) -> bool:
        """Return whether the loop is warm; call once per cycle."""
        gap, self._last_ns = now_ns - self._last_ns, now_ns
        self._on_time = self._on_time + 1 if gap < ON_TIME else 0
        return self._on_time >= WARM_CYCLES or now_ns > self._deadline_ns
