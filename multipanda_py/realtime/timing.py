# SPDX-License-Identifier: Apache-2.0
"""Run cycles on absolute deadlines, or when an arm's state arrives."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.cycle import ControlLoop


@dataclass(frozen=True)
class LoopStatistics:
    """Timing of the cycles of a window.

    Attributes:
        cycles: Number of cycles in the window.
        rate: Cycles per second [Hz].
        lateness_p50: Median of wake-up minus deadline [s].
        lateness_p99: 99th percentile of it [s].
        lateness_max: Largest of it [s].
        compute_p50: Median time from wake-up to the record of the cycle [s].
        compute_p99: 99th percentile of it [s].
        compute_max: Largest of it [s].
        missed: Periods skipped in the window.
        real_time_factor: World time per wall time.
    """

    cycles: int
    rate: float
    lateness_p50: float
    lateness_p99: float
    lateness_max: float
    compute_p50: float
    compute_p99: float
    compute_max: float
    missed: int
    real_time_factor: float


def summarise(rows: NDArray[np.void]) -> LoopStatistics:
    """Summarise consecutive rows; with fewer than two, everything is zero."""
    if len(rows) < 2:
        return LoopStatistics(len(rows), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0)
    lateness = (rows["wake_ns"] - rows["deadline_ns"]) * 1e-9
    compute = rows["compute_ns"] * 1e-9
    wall = float(rows["wake_ns"][-1] - rows["wake_ns"][0]) * 1e-9 or 1e-9
    world = float(rows["time"][-1] - rows["time"][0])
    return LoopStatistics(
        cycles=len(rows),
        rate=(len(rows) - 1) / wall,
        lateness_p50=float(np.percentile(lateness, 50)),
        lateness_p99=float(np.percentile(lateness, 99)),
        lateness_max=float(lateness.max()),
        compute_p50=float(np.percentile(compute, 50)),
        compute_p99=float(np.percentile(compute, 99)),
        compute_max=float(compute.max()),
        missed=int(rows["missed"][-1] - rows["missed"][0]),
        real_time_factor=world / wall,
    )


_now = time.monotonic_ns
GRACE = 1.5
"""Periods without a state after which simulated arms of a mixed cell go on by the clock."""


def run(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run the loop until told to stop, in the way that its arms ask for. Thread: control."""
    if any(backend.wake_fds for backend in loop.backends):
        run_woken(loop, period, keep_going)
    else:
        run_paced(loop, period, keep_going)


def run_paced(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run the loop once per period until told to stop.

    A cycle that ends after the next deadline skips whole periods and keeps the phase; the
    skipped ones are counted in ``loop.missed``. While it is paused, the phase waits with it.
    Python's sleep is a ``clock_nanosleep`` to
    an absolute deadline from 3.11 on.

    Thread: control.
    """
    sleep = time.sleep
    step = round(period * 1e9)
    deadline = _now() + step
    while keep_going():
        wait = deadline - _now()
        if wait > 0:
            sleep(wait * 1e-9)
        if loop.is_paused:
            loop.rest(_now())
            deadline = _now() + step
            continue
        loop.cycle(_now(), deadline)
        deadline += step
        late = _now() - deadline
        if late > 0:
            skipped = late // step + 1
            loop.missed += skipped
            deadline += skipped * step


def run_woken(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Answer every arm's state packet at once, until told to stop.

    An arm keeps its descriptor when its driver is restarted.

    Arms that come together are answered together. Simulated arms of the same cell move on
    with the first real arm that speaks in a period, and by the clock while none does.

    Thread: control.
    """
    step = round(period * 1e9)
    simulated = [arm for backend in loop.backends if not backend.wake_fds for arm in backend.arms]
    arms = {fd: arm for backend in loop.backends for fd, arm in backend.wake_fds.items()}
    fds, nothing = list(arms), ()
    due = _now()
    while keep_going():
        wait = due + (GRACE - 1.0) * step - _now() if simulated else GRACE * step
        # Not poll(), which sleeps for whole milliseconds.
        ready, _, _ = select.select(fds, nothing, nothing, max(0.0, 1e-9 * wait))
        fresh = [arms[fd] for fd in ready]
        now = _now()
        if simulated and (now >= due if fresh else now >= due + (GRACE - 1.0) * step):
            fresh += simulated
            due = max(due + step, now + step // 2)
        # Also when nobody speaks: mail is read, and a dead driver is found out.
        loop.cycle(now, now, sorted(fresh))
