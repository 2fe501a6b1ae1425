# SPDX-License-Identifier: Apache-2.0
"""How well the loop keeps its time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
