# SPDX-License-Identifier: Apache-2.0
"""What a loop's rows say while a crowd is there: who has which arm, and how well it is moved."""

from __future__ import annotations

import bisect
import threading

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.running_cell import RecordFollower

BEHIND = 0.02, 0.08  # of the tool, of a joint, from what the law is given [m], [rad]
FAST = 0.5  # no tool is ever [m/s]


class Watch(threading.Thread):
    """Follow the rows of the loop: who had which arm when, and how well it was moved."""

    def __init__(self, rows: RecordFollower) -> None:
        super().__init__(daemon=True)
        self._rows, self._end = rows, threading.Event()
        self._laws = rows.controllets
        self._times: list[int] = []
        self._active: list[frozenset[str]] = []
        self.behind, self.joints_behind, self.speed = 0.0, 0.0, 0.0
        self._first = self._last = 0
        self._compute: list[NDArray[np.int64]] = []
        self.cycles = 0
        self._faults: set[int] = set()
        rows.take()
        self._dropped = rows.dropped
        self.start()

    def run(self) -> None:
        """Take what has come, 20 times a second: the ring holds four seconds."""
        while not self._end.wait(0.05):
            self._look(self._rows.take())

    def close(self) -> None:
        """Take the last, and end."""
        self._end.set()
        self.join()
        self._look(self._rows.take())

    def _look(self, rows: NDArray[np.void]) -> None:
        if not len(rows):
            return
        arms = rows["arms"]
        self.cycles += len(rows)
        self._first = self._first or int(rows["missed_cycles"][0])
        self._last = int(rows["missed_cycles"][-1])
        self._compute.append(rows["compute_ns"])
        self._faults.update(map(int, np.unique(arms["fault"])))
        owners = arms["owner"]
        for place in np.flatnonzero((np.diff(owners, axis=0, prepend=-1) != 0).any(axis=1)):
            active = frozenset(self._laws[number] for number in owners[place])
            if self._active[-1:] != [active]:
                self._times.append(int(rows["wake_ns"][place]))
                self._active.append(active)
        has_pose, has_joint = (arms["target_channels"] & bit != 0 for bit in (1, 2))
        off = np.linalg.norm(arms["target_pose"][..., :3] - arms["position_ee_in_base"], axis=-1)
        self.behind = max(self.behind, float(off[has_pose].max(initial=0.0)))
        wide = np.abs(arms["target_joint"][..., 0, :] - arms["q"]).max(axis=-1)
        only = has_joint & ~has_pose
        self.joints_behind = max(self.joints_behind, float(wide[only].max(initial=0.0)))
        speed = np.linalg.norm(arms["twist_ee_in_base"][..., :3], axis=-1)
        self.speed = max(self.speed, float(speed.max()))

    def was_active(self, laws: frozenset[str], begun: int, ended: int) -> bool:
        """Return whether these laws and no others were active at some time [ns]."""
        first = max(bisect.bisect_right(self._times, begun) - 1, 0)
        last = bisect.bisect_right(self._times, ended)
        return laws in self._active[first:last]

    def trouble(self) -> list[str]:
        """Return what is wrong with the motion."""
        found = []
        for what, size, maximum in (
            ("a tool was behind its reference by", self.behind, BEHIND[0]),
            ("a joint was behind its reference by", self.joints_behind, BEHIND[1]),
            ("a tool moved at", self.speed, FAST),
        ):
            if size > maximum:
                found.append(f"{what} {size:.3f}, allowed {maximum:g}")
        if self._faults - {0}:
            found.append(f"faults: {self._faults - {0}}")
        if dropped := self._rows.dropped - self._dropped:
            found.append(f"{dropped} rows were not seen")
        return found

    def report(self) -> list[str]:
        """Return what was seen, as lines."""
        compute = 1e-3 * np.concatenate(self._compute)
        p50, p99, maximum = np.percentile(compute, [50, 99, 100])
        return [
            f"{self.cycles} cycles, {self._last - self._first} periods missed; computed for "
            f"{p50:.0f} us (median), {p99:.0f} us (99 %), {maximum:.0f} us (longest)",
            f"{len(self._times)} changes of the active set; tools at most {1e3 * self.behind:.1f} "
            f"mm and joints {self.joints_behind:.3f} rad behind, at up to {self.speed:.2f} m/s",
        ]
