# SPDX-License-Identifier: Apache-2.0
"""Measure while arms do as their laws say: a cycle of an arm that holds costs something else."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from multipanda_py.apps.bench.node import SETTLE, BenchNode
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.running_cell import RowFollower
from multipanda_py.state import Matrix, Vector

SLOW = 300.0
"""After its deadline a cycle's commands are late for a robot [us]; Franka's figure."""
_LOOK = 0.2
PERCENTILES = {"median": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
Counts = NDArray[np.int64]
Columns = tuple[NDArray[Any], ...]
_HEADS = ("wake_ns", "deadline_ns", "control_ns", "compute_ns", "missed")


@dataclass(frozen=True)
class CycleTimes:
    """All cycles of a while; times in ns of CLOCK_MONOTONIC, arrays (n,) if not said.

    Attributes:
        wake: When each began.
        deadline: When each should have begun.
        control: From there until commands were known.
        compute: From there until all was done.
        missed: Periods skipped so far.
        tau: Commanded torques, (n, arms, joints) [Nm].
        sensed: Cycle of each arm's newest state, (n, arms); the same as ``wake``: a new one.
        x: Of the reference of the first arm [m].
        held: Whether an arm held instead of doing as its law says, as when targets pause.
        dropped: Cycles that could not be read in time.
    """

    wake: Counts
    deadline: Counts
    control: Counts
    compute: Counts
    missed: Counts
    tau: NDArray[np.float64]
    sensed: Counts
    x: Vector
    held: NDArray[np.bool_]
    dropped: int


def watch(rows: RowFollower, seconds: float) -> CycleTimes:
    """Collect the timing of all cycles of a loop for some time [s].

    Raises:
        BenchError: If it did none.
    """
    return watch_all([rows], seconds)[0]


def watch_all(followers: Sequence[RowFollower], seconds: float) -> list[CycleTimes]:
    """Do so for several loops at the same time.

    Raises:
        BenchError: If one did no cycle.
    """
    for rows in followers:
        rows.take()
    dropped = [rows.dropped for rows in followers]
    parts: list[list[Columns]] = [[] for _ in followers]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(max(0.0, min(_LOOK, until - time.monotonic())))
        for rows, columns in zip(followers, parts):
            while len(found := rows.take()):
                columns.append(_columns_of(rows, found))
    return [
        _joined(rows, columns, rows.dropped - before)
        for rows, columns, before in zip(followers, parts, dropped)
    ]


def _joined(rows: RowFollower, parts: list[Columns], dropped: int) -> CycleTimes:
    if not parts:
        raise BenchError(f"the loop of {', '.join(rows.arms)} did no cycle: its core is taken")
    wake, deadline, control, compute, missed, tau, sensed, x, held = (
        np.concatenate(column) for column in zip(*parts)
    )
    return CycleTimes(wake, deadline, control, compute, missed, tau, sensed, x, held, dropped)


def _columns_of(rows: RowFollower, found: NDArray[np.void]) -> Columns:
    """Return copies of what is looked at, in the order of CycleTimes."""
    arms = found["arms"]
    holds = [k for k, name in enumerate(rows.controllets) if name.endswith("/hold")]
    columns = (
        *(found[name] for name in _HEADS),
        arms["tau"],
        arms["sensed_ns"],
        arms["target_pose"][:, 0, 0],
        np.isin(arms["owner"], holds).any(axis=1),
    )
    return tuple(np.array(column) for column in columns)


def summary(values: Vector) -> dict[str, float]:
    """Return percentiles of times; empty if there are none."""
    if not len(values):
        return {}
    found = np.percentile(values, list(PERCENTILES.values()))
    return {name: round(float(value), 2) for name, value in zip(PERCENTILES, found)}


def cycle_times(timing: CycleTimes) -> dict[str, Vector]:
    """Return control, cycle and lateness of all cycles [us]."""
    late = timing.wake - timing.deadline
    found = {"control": timing.control, "cycle": timing.compute, "lateness": late}
    return {name: np.asarray(values * 1e-3, dtype=np.float64) for name, values in found.items()}


def topic_to_use(timing: CycleTimes, sent: Matrix) -> Vector:
    """Return how long targets took from their publication to the cycle that used them [us].

    Args:
        timing: Of the loop.
        sent: When, CLOCK_MONOTONIC [s], and x of every target, (n, 2); which tells them apart.
    """
    first = np.flatnonzero(np.diff(timing.x)) + 1  # cycles with a new target
    by_x = np.argsort(sent[:, 1], kind="stable")
    ordered = sent[by_x]
    at = np.clip(np.searchsorted(ordered[:, 1], timing.x[first]), 0, len(ordered) - 1)
    same = ordered[at, 1] == timing.x[first]
    took: Vector = timing.wake[first][same] * 1e-3 - ordered[at[same], 0] * 1e6
    plausible: Vector = took[(took >= 0.0) & (took < 1e5)]  # another target had the same x
    return plausible


ATTEMPTS = 3
"""Of a part; a machine that is too busy for it three times will be a fourth time."""
HELD = 0.01
"""Share of cycles in which an arm may have held: it moves no median and hardly a percentile."""
Found = TypeVar("Found")
Measure = Callable[[], tuple[Sequence[CycleTimes], Found]]


def undisturbed(
    nodes: Mapping[BenchNode, Sequence[str]], measure: Measure[Found]
) -> tuple[Sequence[CycleTimes], Found]:
    """Measure a part; anew if arms held or failed meanwhile, as when others took the machine.

    Args:
        nodes: What is measured, and the instances by which arms go on after that.
        measure: Returns the timing of each node, and whatever else.

    Returns:
        What it has returned.

    Raises:
        BenchError: If arms held or failed every time: there is no figure then.
    """
    share, last = 0.0, ""
    for _ in range(ATTEMPTS):
        timings, found = measure()
        share = max(float(timing.held.mean()) for timing in timings)
        if share <= HELD and not any(node.faults() for node in nodes):
            return timings, found
        last = " / ".join(_last_words(node.log) for node in nodes)
        for node, instances in nodes.items():
            node.switch(instances)
        time.sleep(SETTLE)
    for node in nodes:
        node.check()
    raise BenchError(
        f"arms held in {100.0 * share:.0f} % of the cycles, {ATTEMPTS} times: the machine is too "
        f"busy; the node's log ended with: {last}"
    )


def again(measure: Callable[[], Found]) -> Found:
    """Measure a part without a node; anew if it fails, as when others took the machine.

    Raises:
        BenchError: The last one, if it fails every time.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return measure()
        except BenchError:
            time.sleep(SETTLE)
    return measure()


def _last_words(log: str) -> str:
    """Return the last line of a log without its stamp and name."""
    return log.strip().rpartition("\n")[2].rpartition("]: ")[2]
