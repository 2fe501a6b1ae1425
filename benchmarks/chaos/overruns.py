# SPDX-License-Identifier: Apache-2.0
"""Why a loop was late, as the kernel's accounts tell: nothing is added to the loop for it.

The kernel counts for every thread how long it ran and how long it was ready and another one had
its core, and its page faults; for every core what the host took. They are looked at every few
milliseconds, and what was counted around a late cycle says what it was late by.
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

PERIOD = 0.005  # between two looks [s]
KEPT = 3000  # looks
DISTINGUISHABLE = 0.5  # share of the delay that explains it
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")

OTHERS = "another process had the core"
DISK = "page fault, read from disk"
FAULT = "page fault"
HOST = "the host had the core"
US = "us: it computed"
SWITCH = "us: laws were switched"
NOT_WOKEN = "interrupt, late timer or a stop"
UNSEEN = "nobody looked"


class Look(NamedTuple):
    """Counts of a thread and its core so far, or what was added in between.

    Attributes:
        at: Time, CLOCK_MONOTONIC [ns].
        ran: On a core [ns].
        waited: Ready, without a core [ns].
        minor: Page faults that needed no disk.
        major: Page faults that did.
        stolen: From its core by the host [ns].
    """

    at: int
    ran: int
    waited: int
    minor: int
    major: int
    stolen: int


def look(pid: int, cpu: int) -> Look:
    """Read the counts of a process's first thread, and of a core."""
    thread = Path(f"/proc/{pid}/task/{pid}")
    ran, waited, _ = map(int, (thread / "schedstat").read_text().split())
    fields = (thread / "stat").read_text().rpartition(")")[2].split()
    cores = Path("/proc/stat").read_text().splitlines()
    own = next(line.split() for line in cores if line.startswith(f"cpu{cpu} "))
    return Look(time.monotonic_ns(), ran, waited, int(fields[7]), int(fields[9]),
                int(own[8]) * _TICK_NS)  # fmt: skip


def cause(late: int, computed: int, spent: Look) -> str:
    """Return why a cycle ended late.

    Args:
        late: How late it began [ns].
        computed: How long it took [ns].
        spent: What was counted around it.
    """
    needed = DISTINGUISHABLE * max(late, computed)
    if spent.waited >= needed:
        return OTHERS
    if spent.major:
        return DISK
    if spent.stolen >= needed:
        return HOST
    if late > computed:  # nobody had its core, and it was not woken
        return NOT_WOKEN
    if spent.ran < needed:
        return NOT_WOKEN
    return FAULT if spent.minor else US


class Overruns(threading.Thread):
    """Look at the first thread of a process, and say why its cycles were late.

    Args:
        pid: Of the process.
        cpu: The core that it is pinned to.

    Attributes:
        cycles: How many were judged.
        causes: Late ones by cause.
        longest: The worst of them by cause [ms].
        looks: Counts of the last 15 s, oldest first.
    """

    def __init__(self, pid: int, cpu: int) -> None:
        super().__init__(daemon=True)
        self._pid, self._cpu = pid, cpu
        self.looks: deque[Look] = deque(maxlen=KEPT)
        self._end = threading.Event()
        self._last: NDArray[np.void] | None = None
        self.cycles = 0
        self.causes: Counter[str] = Counter()
        self.longest: dict[str, float] = {}

    def run(self) -> None:
        """Look until told to end, or the process is gone."""
        with contextlib.suppress(OSError):
            while not self._end.wait(PERIOD):
                self.looks.append(look(self._pid, self._cpu))

    def close(self) -> None:
        """Look no more."""
        self._end.set()
        self.join()

    def judge(self, rows: NDArray[np.void]) -> None:
        """Count the loop's rows, oldest first; late were those after which periods were skipped.

        Each is judged between its neighbours, so the first of all is not.
        """
        if self._last is not None:
            rows = np.concatenate([self._last, rows])
        self._last = rows[-2:]
        self.cycles += max(0, len(rows) - 2)
        is_late = np.diff(rows["missed_cycles"])[1:] > 0
        switched = np.diff(rows["epoch"])[:-1] != 0
        for row, has_switched in zip(rows[1:-1][is_late], switched[is_late]):
            late, computed = int(row["wake_ns"] - row["deadline_ns"]), int(row["compute_ns"])
            why = self.why(int(row["deadline_ns"]), late, computed)
            why = SWITCH if why == US and has_switched else why
            self.causes[why] += 1
            self.longest[why] = max(self.longest.get(why, 0.0), (late + computed) * 1e-6)

    def why(self, due: int, late: int, computed: int) -> str:
        """Return why a cycle that was due at a time [ns] ended late."""
        looks = list(self.looks)
        before = [observed for observed in looks if observed.at <= due]
        after = [observed for observed in looks if observed.at >= due + late + computed]
        if not before or not after:
            return UNSEEN
        return cause(late, computed, Look(*(b - a for a, b in zip(before[-1], after[0]))))

    def table(self) -> list[str]:
        """Return the causes in Markdown."""
        lines = ["| late because | how often | longest [ms] |", "|---|---|---|"]
        for why, count in self.causes.most_common():
            lines.append(f"| {why} | {count} | {self.longest[why]:.1f} |")
        lines.append(f"| in all | {sum(self.causes.values())} of {self.cycles} cycles | |")
        return lines
