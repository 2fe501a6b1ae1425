# SPDX-License-Identifier: Apache-2.0
"""Additional cycle time of a real-time cell of two arms, due to residuals on both arms.

Windows with and without residuals (``residual: {state}``) alternate; each is a new cell. The order
changes from pair to pair, so that other load affects both equally. During each window, a loop in C
with normal priority shows the delays of the machine.

    .venv/bin/python benchmarks/residual_live.py                     # about a minute
    .venv/bin/python benchmarks/residual_live.py --pairs 3 --window 2 --weights residual.npz
"""

from __future__ import annotations

import argparse
import copy
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from parts.options import count, duration

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "test" / "helpers"))

from clock_loop import ClockLoop  # noqa: E402

from multipanda_py import Cell  # noqa: E402
from multipanda_py.config.cell_file import CellConfig  # noqa: E402

SETTLE = 1.3
"""Time from a start until residuals have faded in [s]."""
EVERY = 10
"""Cycles between two steps of a network: 100 of 1000 per second."""
HEADER = (
    "| residuals | lateness, median / 99 % [us] | cycle, median / 99 % [us] | "
    "missed cycles | C loop, max lateness [ms] |"
)


def cells(weights: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of a cell without and with residuals, by name."""
    plain = yaml.safe_load((ROOT / "config" / "dual_sim.yaml").read_text())["/**"]
    plain = plain["ros__parameters"]
    plain["cell"] |= {"name": f"residual_{os.getpid()}", "placement": "process"}
    shown = copy.deepcopy(plain)
    for arm in shown["arms"].values():
        arm["residual"] = {"state": str(weights)}
    return {"none": plain, "on both arms": shown}


def window(settings: dict[str, Any], seconds: float) -> tuple[Any, ClockLoop]:
    """Run a cell and the loop in C for a duration [s].

    Returns:
        Lateness [us], duration [us] and number of each cycle, (3, k), and the loop in C.
    """
    with Cell(CellConfig.from_dict(settings)) as cell:
        time.sleep(SETTLE)
        follower = cell.follow_records()
        parts = []
        with ClockLoop() as loop:
            end_time = time.monotonic() + seconds
            while time.monotonic() < end_time:
                time.sleep(0.2)
                rows = follower.take()
                late = 1e-3 * (rows["wake_ns"] - rows["deadline_ns"])
                parts.append(np.stack([late, 1e-3 * rows["compute_ns"], rows["cycle"]]))
    return np.hstack(parts), loop


def line(name: str, windows: list[tuple[Any, ClockLoop]]) -> str:
    """Return medians over windows as a row of the table."""
    found = [np.percentile(rows[:2], [50, 99], axis=1).T.ravel() for rows, _ in windows]
    late, latest, work, maximum = (f"{value:.0f}" for value in np.median(found, axis=0))
    missed = sum(int((rows[0] > 1000.0).sum()) for rows, _ in windows)
    worst = np.median([loop.worst for _, loop in windows]) / 1000.0
    return f"| {name} | {late} / {latest} | {work} / {maximum} | {missed} | {worst:.1f} |"


def network_times(windows: dict[str, list[tuple[Any, ClockLoop]]]) -> list[float]:
    """Return the times of a network step of both arms [us].

    The network of each arm runs in another cycle of ten. Its time is the increase of the median
    cycle time in these cycles, minus the median increase in the eight cycles without a network.
    """
    none, shown = (
        [np.median(np.hstack([rows[1, rows[2] % EVERY == phase] for rows, _ in each]))
         for phase in range(EVERY)]
        for each in windows.values()
    )  # fmt: skip
    increases = np.sort(np.subtract(shown, none))
    return [float(one - np.median(increases[:-2])) for one in increases[-2:]]


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=count, default=5)
    parser.add_argument("--window", type=duration, default=4.0, help="duration of each [s]")
    parser.add_argument("--weights", type=Path, default=ROOT / "config" / "residual" / "plant.npz")
    options = parser.parse_args()
    settings = cells(options.weights)
    found: dict[str, list[tuple[Any, ClockLoop]]] = {name: [] for name in settings}
    for number in range(options.pairs):
        for name in list(settings)[:: 1 if number % 2 else -1]:
            found[name].append(window(settings[name], options.window))
    print(HEADER)
    print("|---" * 5 + "|")
    for name, windows in found.items():
        print(line(name, windows))
    print(
        "step of a network, for both arms: "
        + ", ".join(f"{one:.0f} us" for one in network_times(found))
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
