# SPDX-License-Identifier: Apache-2.0
"""Timing of control cycles, from the records that a loop keeps in shared memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.apps.bench.node import SETTLE_TIME, BenchNode
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.running_cell import RecordFollower
from multipanda_py.state import Matrix, Vector

LATE_COMMAND_TIME = 300.0
"""Time after the deadline beyond which commands are late for a robot [us]; Franka's figure."""
_POLL_PERIOD = 0.2  # Period of reading records [s].
PERCENTILES = {"median": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
Counts = NDArray[np.int64]
Columns = tuple[NDArray[Any], ...]
_TIMING_FIELDS = ("wake_ns", "deadline_ns", "control_ns", "compute_ns", "missed_cycles")


@dataclass(frozen=True)
class CycleTimes:
    """Timing of all cycles of a measurement; arrays (n,) in ns of CLOCK_MONOTONIC unless noted.

    Attributes:
        wake: Start of each cycle.
        deadline: Scheduled start of each cycle.
        control: Duration from ``wake`` until the commands are computed.
        compute: Duration from ``wake`` until the end of the cycle.
        missed: Number of periods without a cycle since the start of the loop.
        tau: Commanded torques, (n, arms, joints) [Nm].
        sensed: Start of the cycle that read the newest state of each arm, (n, arms).
        reference_x: Coordinate x of the target position of the first arm [m].
        held: True in cycles in which an arm was on hold.
        dropped: Number of cycles whose records were overwritten before they were read.
    """

    wake: Counts
    deadline: Counts
    control: Counts
    compute: Counts
    missed: Counts
    tau: NDArray[np.float64]
    sensed: Counts
    reference_x: Vector
    held: NDArray[np.bool_]
    dropped: int


def collect_cycle_times(rows: RecordFollower, seconds: float) -> CycleTimes:
    """Wait for ``seconds`` [s], and return the timing of all cycles that a loop has run.

    Raises:
        BenchError: The loop ran no cycle.
    """
    return collect_all_cycle_times([rows], seconds)[0]


def collect_all_cycle_times(
    followers: Sequence[RecordFollower], seconds: float
) -> list[CycleTimes]:
    """Wait for ``seconds`` [s], and return the timing of all cycles of several loops.

    Raises:
        BenchError: A loop ran no cycle.
    """
    for rows in followers:
        rows.take()
    dropped = [rows.dropped for rows in followers]
    parts: list[list[Columns]] = [[] for _ in followers]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(max(0.0, min(_POLL_PERIOD, until - time.monotonic())))
        for rows, columns in zip(followers, parts):
            while len(result := rows.take()):
                columns.append(_columns_of(rows, result))
    return [
        _joined(rows, columns, rows.dropped - before)
        for rows, columns, before in zip(followers, parts, dropped)
    ]


def _joined(rows: RecordFollower, parts: list[Columns], dropped: int) -> CycleTimes:
    if not parts:
        raise BenchError(
            f"{', '.join(rows.arms)}: the loop ran no cycle. Another program uses its core"
        )
    wake, deadline, control, compute, missed, tau, sensed, x, held = (
        np.concatenate(column) for column in zip(*parts)
    )
    return CycleTimes(wake, deadline, control, compute, missed, tau, sensed, x, held, dropped)


def _columns_of(rows: RecordFollower, records: NDArray[np.void]) -> Columns:
    arms = records["arms"]
    holds = [k for k, name in enumerate(rows.controllets) if name.endswith("/hold")]
    columns = (
        *(records[name] for name in _TIMING_FIELDS),
        arms["tau"],
        arms["state_cycle_ns"],
        arms["target_pose"][:, 0, 0],
        np.isin(arms["owner"], holds).any(axis=1),
    )
    return tuple(np.array(column) for column in columns)


def summary(values: Vector) -> dict[str, float]:
    """Return the percentiles of :data:`PERCENTILES` by name; empty if there are no values."""
    if not len(values):
        return {}
    result = np.percentile(values, list(PERCENTILES.values()))
    return {name: round(float(value), 2) for name, value in zip(PERCENTILES, result)}


def cycle_times(timing: CycleTimes) -> dict[str, Vector]:
    """Return three times of every cycle, (n,) [us], by name.

    - ``control``: from the start of the cycle until the commands are computed.
    - ``cycle``: from the start to the end of the cycle.
    - ``lateness``: from the scheduled to the actual start.
    """
    late = timing.wake - timing.deadline
    result = {"control": timing.control, "cycle": timing.compute, "lateness": late}
    return {name: np.asarray(values * 1e-3, dtype=np.float64) for name, values in result.items()}


def topic_to_use(timing: CycleTimes, sent: Matrix) -> Vector:
    """Return the delay of targets from publication to the first cycle that used them [us].

    The x coordinate of a target identifies the cycle.

    Args:
        timing: Cycle timing of the loop.
        sent: Publication time on CLOCK_MONOTONIC [s] and x [m] of every target, (n, 2).
    """
    first = np.flatnonzero(np.diff(timing.reference_x)) + 1  # Cycles with a new target.
    by_x = np.argsort(sent[:, 1], kind="stable")
    ordered = sent[by_x]
    at = np.clip(np.searchsorted(ordered[:, 1], timing.reference_x[first]), 0, len(ordered) - 1)
    same = ordered[at, 1] == timing.reference_x[first]
    took: Vector = timing.wake[first][same] * 1e-3 - ordered[at[same], 0] * 1e6
    # Targets with equal x may be confused. Delays outside [0, 0.1 s] come from such errors.
    plausible: Vector = took[(took >= 0.0) & (took < 1e5)]
    return plausible


MAX_ATTEMPTS = 3
"""Maximum number of attempts to measure a part."""
MAX_HELD_FRACTION = 0.01
"""Maximum fraction of cycles with a held arm; it changes neither median nor p99 noticeably."""
Result = TypeVar("Result")
Measure = Callable[[], tuple[Sequence[CycleTimes], Result]]


def measure_without_holds(
    nodes: Mapping[BenchNode, Sequence[str]], measure: Measure[Result]
) -> tuple[Sequence[CycleTimes], Result]:
    """Run a measurement, and repeat it if an arm was on hold or had a fault.

    Args:
        nodes: Controllets to activate before a repetition, by node.
        measure: Function that returns the timing of each node, and a second result of any type.

    Returns:
        Result of ``measure``.

    Raises:
        BenchError: An arm was on hold or had a fault in every attempt.
    """
    fraction, last = 0.0, ""
    for _ in range(MAX_ATTEMPTS):
        timings, result = measure()
        fraction = max(float(timing.held.mean()) for timing in timings)
        if fraction <= MAX_HELD_FRACTION and not any(node.faults() for node in nodes):
            return timings, result
        last = " / ".join(_last_log_message(node.log) for node in nodes)
        for node, instances in nodes.items():
            node.switch(instances)
        time.sleep(SETTLE_TIME)
    for node in nodes:
        node.check()
    raise BenchError(
        f"arms held in {100.0 * fraction:.0f} % of the cycles, after {MAX_ATTEMPTS} attempts. "
        f"End other programs, which keep the machine too busy. Last line of the node's log: {last}"
    )


def measure_with_retry(measure: Callable[[], Result]) -> Result:
    """Run a measurement, and repeat it if it fails.

    Raises:
        BenchError: Every attempt has failed; this is the error of the last one.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return measure()
        except BenchError:
            time.sleep(SETTLE_TIME)
    return measure()


def _last_log_message(log: str) -> str:
    return log.strip().rpartition("\n")[2].rpartition("]: ")[2]
