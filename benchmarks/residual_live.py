# SPDX-License-Identifier: Apache-2.0
"""What residuals cost a paced cell of two arms: windows with one on each, and without, in turn.

Every window is a cell of its own, in real time, whose arms show what a network has learned
(``residual: {state}``); the order changes from pair to pair, so whatever else the machine does
hits both. A loop in C runs beside each window at normal priority and shows what the machine does
to anybody.

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
"""After a start, until residuals have come in [s]."""
EVERY = 10
"""Cycles from a step of a network to its next: 100 a second of 1000."""
HEAD = (
    "| residuals | begins late, median / 99 % [us] | a cycle, median / 99 % [us] | "
    "periods missed | C loop, latest [ms] |"
)


def cells(weights: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of a cell with residuals, and without."""
    plain = yaml.safe_load((ROOT / "config" / "dual_sim.yaml").read_text())["/**"]
    plain = plain["ros__parameters"]
    plain["cell"] |= {"name": f"residual_{os.getpid()}", "placement": "process"}
    shown = copy.deepcopy(plain)
    for arm in shown["arms"].values():
        arm["residual"] = {"state": str(weights)}
    return {"none": plain, "on both arms": shown}


def window(settings: dict[str, Any], seconds: float) -> tuple[Any, ClockLoop]:
    """Run a cell so long, and the loop in C beside it.

    Returns:
        How late each cycle began, how long it took [us] and its number, (3, k), and the loop.
    """
    with Cell(CellConfig.from_dict(settings)) as cell:
        time.sleep(SETTLE)
        follower = cell.follow_records()
        parts = []
        with ClockLoop() as loop:
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                time.sleep(0.2)
                rows = follower.take()
                late = 1e-3 * (rows["wake_ns"] - rows["deadline_ns"])
                parts.append(np.stack([late, 1e-3 * rows["compute_ns"], rows["cycle"]]))
    return np.hstack(parts), loop


def line(name: str, windows: list[tuple[Any, ClockLoop]]) -> str:
    """Return medians over windows as a line of the table."""
    found = [np.percentile(rows[:2], [50, 99], axis=1).T.ravel() for rows, _ in windows]
    late, latest, work, maximum = (f"{value:.0f}" for value in np.median(found, axis=0))
    missed = sum(int((rows[0] > 1000.0).sum()) for rows, _ in windows)
    worst = np.median([loop.worst for _, loop in windows]) / 1000.0
    return f"| {name} | {late} / {latest} | {work} / {maximum} | {missed} | {worst:.1f} |"


def of_a_step(windows: dict[str, list[tuple[Any, ClockLoop]]]) -> list[float]:
    """Return what steps of the networks take, one an arm [us].

    Each runs in every tenth cycle, in one of its own: medians of the cycles in these, less those
    of the other eight, which go through whatever else there is.
    """
    none, shown = (
        [np.median(np.hstack([rows[1, rows[2] % EVERY == turn] for rows, _ in each]))
         for turn in range(EVERY)]
        for each in windows.values()
    )  # fmt: skip
    more = np.sort(np.subtract(shown, none))
    return [float(one - np.median(more[:-2])) for one in more[-2:]]


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=count, default=5)
    parser.add_argument("--window", type=duration, default=4.0, help="of each [s]")
    parser.add_argument("--weights", type=Path, default=ROOT / "config" / "residual" / "plant.npz")
    options = parser.parse_args()
    settings = cells(options.weights)
    found: dict[str, list[tuple[Any, ClockLoop]]] = {name: [] for name in settings}
    for number in range(options.pairs):
        for name in list(settings)[:: 1 if number % 2 else -1]:
            found[name].append(window(settings[name], options.window))
    print(HEAD)
    print("|---" * 5 + "|")
    for name, windows in found.items():
        print(line(name, windows))
    print("a step, by arm: " + ", ".join(f"{one:.0f} us" for one in of_a_step(found)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
