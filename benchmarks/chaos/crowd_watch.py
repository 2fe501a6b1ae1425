# SPDX-License-Identifier: Apache-2.0
"""Owners and tracking errors of the arms during a crowd, from the records of the loop."""

from __future__ import annotations

import bisect
import threading

import numpy as np
from numpy.typing import NDArray

from multipanda_py.realtime.running_cell import RecordFollower

MAX_LAG = 0.02, 0.08  # of a tool [m] and a joint [rad] behind the target
MAX_SPEED = 0.5  # of a tool [m/s]


class Watch(threading.Thread):
    """Thread that reads the cycle records of the loop."""

    def __init__(self, follower: RecordFollower) -> None:
        super().__init__(daemon=True)
        self._follower, self._end = follower, threading.Event()
        self._controllets = follower.controllets
        self._times: list[int] = []
        self._active: list[frozenset[str]] = []
        self.tool_lag, self.joint_lag, self.speed = 0.0, 0.0, 0.0
        self._first = self._last = 0
        self._compute: list[NDArray[np.int64]] = []
        self.cycles = 0
        self._faults: set[int] = set()
        follower.take()
        self._dropped = follower.dropped
        self.start()

    def run(self) -> None:
        """Read new records 20 times a second. The ring buffer holds four seconds."""
        while not self._end.wait(0.05):
            self._add(self._follower.take())

    def close(self) -> None:
        """End the thread, and read the last records."""
        self._end.set()
        self.join()
        self._add(self._follower.take())

    def _add(self, records: NDArray[np.void]) -> None:
        if not len(records):
            return
        arms = records["arms"]
        self.cycles += len(records)
        self._first = self._first or int(records["missed_cycles"][0])
        self._last = int(records["missed_cycles"][-1])
        self._compute.append(records["compute_ns"])
        self._faults.update(map(int, np.unique(arms["fault"])))
        owners = arms["owner"]
        for index in np.flatnonzero((np.diff(owners, axis=0, prepend=-1) != 0).any(axis=1)):
            active = frozenset(self._controllets[number] for number in owners[index])
            if self._active[-1:] != [active]:
                self._times.append(int(records["wake_ns"][index]))
                self._active.append(active)
        has_pose, has_joint = (arms["target_channels"] & bit != 0 for bit in (1, 2))
        error = np.linalg.norm(arms["target_pose"][..., :3] - arms["position_ee_in_base"], axis=-1)
        self.tool_lag = max(self.tool_lag, float(error[has_pose].max(initial=0.0)))
        error = np.abs(arms["target_joint"][..., 0, :] - arms["q"]).max(axis=-1)
        only = has_joint & ~has_pose
        self.joint_lag = max(self.joint_lag, float(error[only].max(initial=0.0)))
        speed = np.linalg.norm(arms["twist_ee_in_base"][..., :3], axis=-1)
        self.speed = max(self.speed, float(speed.max()))

    def was_active(self, controllets: frozenset[str], started: int, ended: int) -> bool:
        """Return True if exactly these controllets were active at any time in an interval [ns]."""
        first = max(bisect.bisect_right(self._times, started) - 1, 0)
        last = bisect.bisect_right(self._times, ended)
        return controllets in self._active[first:last]

    def trouble(self) -> list[str]:
        """Return failures: lags, speeds, faults and lost records."""
        found = []
        for quantity, value, maximum, unit in (
            ("lag of a tool", self.tool_lag, MAX_LAG[0], "m"),
            ("lag of a joint", self.joint_lag, MAX_LAG[1], "rad"),
            ("speed of a tool", self.speed, MAX_SPEED, "m/s"),
        ):
            if value > maximum:
                found.append(f"{quantity}: {value:.3f} {unit} is above {maximum:g} {unit}")
        if self._faults - {0}:
            found.append(f"faults: {self._faults - {0}}")
        if dropped := self._follower.dropped - self._dropped:
            found.append(f"{dropped} records were lost")
        return found

    def report(self) -> list[str]:
        """Return the results as lines."""
        compute = 1e-3 * np.concatenate(self._compute)
        p50, p99, maximum = np.percentile(compute, [50, 99, 100])
        return [
            f"{self.cycles} cycles, {self._last - self._first} skipped periods; computation time "
            f"{p50:.0f} us (median), {p99:.0f} us (99 %), {maximum:.0f} us (max)",
            f"{len(self._times)} changes of the active controllets; max lag of tools "
            f"{1e3 * self.tool_lag:.1f} mm and of joints {self.joint_lag:.3f} rad, max speed of "
            f"tools {self.speed:.2f} m/s",
        ]
