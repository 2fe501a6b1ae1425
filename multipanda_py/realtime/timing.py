# SPDX-License-Identifier: Apache-2.0
"""Timing of the loop: cycles on absolute deadlines, or on arrival of the state of an arm."""

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
    """Timing statistics of consecutive cycles.

    Attributes:
        cycles: Number of cycles.
        rate: Cycles per second [Hz].
        lateness_p50: Median of the lateness, which is wake-up time minus deadline [s].
        lateness_p99: 99th percentile of the lateness [s].
        lateness_max: Maximum lateness [s].
        compute_p50: Median of the computing time, from wake-up to the record of the cycle [s].
        compute_p99: 99th percentile of the computing time [s].
        compute_max: Maximum computing time [s].
        missed: Number of periods skipped between the first and the last cycle.
        real_time_factor: Simulated time per wall time.
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
    """Return the timing statistics of consecutive cycle records; zeros for fewer than two."""
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
        missed=int(rows["missed_cycles"][-1] - rows["missed_cycles"][0]),
        real_time_factor=world / wall,
    )


_now = time.monotonic_ns
GRACE_PERIODS = 1.5
"""Number of periods without a state of a real arm, after which the simulated arms of the same cell
advance by the clock."""


def run(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run cycles, paced by the states of real arms or by a clock, until ``keep_going`` is False.

    Args:
        loop: Loop to run.
        period: Cycle time [s].
        keep_going: Function that returns False to end the loop.

    Thread: control.
    """
    if any(backend.wake_fds for backend in loop.backends):
        run_woken(loop, period, keep_going)
    else:
        run_paced(loop, period, keep_going)


def run_paced(loop: ControlLoop, period: float, keep_going: Callable[[], bool]) -> None:
    """Run a cycle once per period, by a clock.

    If a cycle takes too long, the periods whose start it has missed are skipped and counted in
    ``loop.missed``. While the simulation is paused, no cycle runs, and no period counts as
    skipped.

    Args:
        loop: Loop to run.
        period: Cycle time [s].
        keep_going: Function that returns False to end the loop.

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
            loop.process_object_requests(_now())
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
    """Run a cycle when state packets of real arms arrive, and answer them immediately.

    Packets that arrive together are answered in the same cycle. Simulated arms of the same cell
    advance once per period. If no packet arrives for :data:`GRACE_PERIODS` periods, the clock
    starts a cycle.

    Args:
        loop: Loop to run.
        period: Cycle time [s].
        keep_going: Function that returns False to end the loop.

    Thread: control.
    """
    step = round(period * 1e9)
    simulated = [arm for backend in loop.backends if not backend.wake_fds for arm in backend.arms]
    arms = {fd: arm for backend in loop.backends for fd, arm in backend.wake_fds.items()}
    fds, nothing = list(arms), ()
    deadline = _now()
    while keep_going():
        wait = (
            deadline + (GRACE_PERIODS - 1.0) * step - _now() if simulated else GRACE_PERIODS * step
        )
        # poll() cannot be used, because its timeout is in whole milliseconds.
        ready, _, _ = select.select(fds, nothing, nothing, max(0.0, 1e-9 * wait))
        fresh = [arms[fd] for fd in ready]
        now = _now()
        if simulated and (
            now >= deadline if fresh else now >= deadline + (GRACE_PERIODS - 1.0) * step
        ):
            fresh += simulated
            deadline = max(deadline + step, now + step // 2)
        # After a timeout the cycle runs without a new state, to read requests and to detect an
        # ended driver.
        loop.cycle(now, now, sorted(fresh))
