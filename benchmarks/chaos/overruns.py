# SPDX-License-Identifier: Apache-2.0
"""Causes of late cycles of a loop, from kernel counters; the loop itself is not instrumented.

For each thread, the kernel counts its run time, its waiting time without a core, and its page
faults. For each core it counts the time that the host took. The counters are sampled every few
milliseconds. Their increase during a late cycle gives the cause.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PERIOD = 0.005  # of samples [s]
MAX_SAMPLES = 3000
MIN_FRACTION = 0.5  # of the delay, for a cause
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")

OTHERS = "another process had the core"
DISK = "page fault, read from disk"
FAULT = "page fault"
HOST = "the host had the core"
US = "the loop computed"
SWITCH = "the loop switched controllets"
NOT_WOKEN = "interrupt, late timer or a stop"
UNSEEN = "not sampled"


class Look(NamedTuple):
    """Sample of the counters of a thread and its core, or the difference of two samples.

    Attributes:
        at: Time, CLOCK_MONOTONIC [ns].
        ran: Time on a core [ns].
        waited: Time in which the thread was ready but had no core [ns].
        minor: Number of page faults without disk access.
        major: Number of page faults with disk access.
        stolen: Time that the host took from the core [ns].
    """

    at: int
    ran: int
    waited: int
    minor: int
    major: int
    stolen: int


def look(pid: int, cpu: int) -> Look:
    """Sample the counters of a process's first thread and of a core."""
    thread = Path(f"/proc/{pid}/task/{pid}")
    ran, waited, _ = map(int, (thread / "schedstat").read_text().split())
    fields = (thread / "stat").read_text().rpartition(")")[2].split()
    cores = Path("/proc/stat").read_text().splitlines()
    own = next(line.split() for line in cores if line.startswith(f"cpu{cpu} "))
    return Look(time.monotonic_ns(), ran, waited, int(fields[7]), int(fields[9]),
                int(own[8]) * _TICK_NS)  # fmt: skip


def cause(late: int, computed: int, spent: Look) -> str:
    """Return the cause of a late end of a cycle.

    Args:
        late: Delay of its start [ns].
        computed: Time from its start to its end [ns].
        spent: Increase of the counters during the cycle.
    """
    needed = MIN_FRACTION * max(late, computed)
    if spent.waited >= needed:
        return OTHERS
    if spent.major:
        return DISK
    if spent.stolen >= needed:
        return HOST
    if late > computed:  # the core was free, but the thread was not woken
        return NOT_WOKEN
    if spent.ran < needed:
        return NOT_WOKEN
    return FAULT if spent.minor else US


class Overruns(threading.Thread):
    """Thread that samples the counters of a loop and assigns causes to late cycles.

    Args:
        pid: Process id of the loop.
        cpu: Core that the loop is pinned to.

    Attributes:
        cycles: Number of checked cycles.
        causes: Number of late cycles by cause.
        longest: Maximum delay by cause [ms].
        looks: Samples of the last 15 s, oldest first.
    """

    def __init__(self, pid: int, cpu: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._cpu = pid, cpu
        self.looks: deque[Look] = deque(maxlen=MAX_SAMPLES)
        self._end = threading.Event()
        self._last: NDArray[np.void] | None = None
        self.cycles = 0
        self.causes: Counter[str] = Counter()
        self.longest: dict[str, float] = {}

    def run(self) -> None:
        """Sample until ``close`` or the end of the process."""
        with contextlib.suppress(OSError):
            while not self._end.wait(PERIOD):
                self.looks.append(look(self._pid, self._cpu))

    def close(self) -> None:
        """End the sampling."""
        self._end.set()
        self.join()

    def judge(self, records: NDArray[np.void]) -> None:
        """Assign causes to the late cycles in new records, oldest first.

        A cycle is late if the loop skipped periods after it. The check of a cycle needs the
        records before and after it: the newest record is checked in the next call.
        """
        if self._last is not None:
            records = np.concatenate([self._last, records])
        self._last = records[-2:]
        self.cycles += max(0, len(records) - 2)
        is_late = np.diff(records["missed_cycles"])[1:] > 0
        switched = np.diff(records["epoch"])[:-1] != 0
        for record, has_switched in zip(records[1:-1][is_late], switched[is_late]):
            late, computed = (
                int(record["wake_ns"] - record["deadline_ns"]),
                int(record["compute_ns"]),
            )
            reason = self.cause_of(int(record["deadline_ns"]), late, computed)
            reason = SWITCH if reason == US and has_switched else reason
            self.causes[reason] += 1
            self.longest[reason] = max(self.longest.get(reason, 0.0), (late + computed) * 1e-6)

    def cause_of(self, deadline: int, late: int, computed: int) -> str:
        """Return the cause of a late end of the cycle with a deadline [ns]."""
        samples = list(self.looks)
        before = [sample for sample in samples if sample.at <= deadline]
        after = [sample for sample in samples if sample.at >= deadline + late + computed]
        if not before or not after:
            return UNSEEN
        return cause(late, computed, Look(*(b - a for a, b in zip(before[-1], after[0]))))

    def table(self) -> list[str]:
        """Return the table of causes in Markdown."""
        lines = ["| cause of the delay | cycles | max [ms] |", "|---|---|---|"]
        for reason, count in self.causes.most_common():
            lines.append(f"| {reason} | {count} | {self.longest[reason]:.1f} |")
        lines.append(f"| total | {sum(self.causes.values())} of {self.cycles} cycles | |")
        return lines
