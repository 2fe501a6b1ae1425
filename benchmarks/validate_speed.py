# SPDX-License-Identifier: Apache-2.0
"""Speed of the tasks of `multipanda validate`, compared with the cell of `multipanda bench`.

    .venv/bin/python benchmarks/validate_speed.py
    .venv/bin/python benchmarks/validate_speed.py --rounds 10 --seconds 10

All times are processor times. Tasks alternate with the inline cell of `multipanda bench`, so that
other load affects both equally. The ratio of their times holds on a quiet machine, too. With the
speed of the bench's cell on a quiet machine, it gives the speed of the tasks there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from multipanda_py.apps.bench.conditions import CONDITIONS, condition_cell
from multipanda_py.apps.cli import main as multipanda
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.identification.validation import TASKS, make_task
from multipanda_py.identification.validation.record import TaskCell

CELL = Path(__file__).parents[1] / "config" / "dual_sim.yaml"
REPEATS, DURATION = 5, 10.0
"""Number of repeats of a complete validation, and duration of each [s]."""
YARDSTICK = 1000
"""Cycles of the bench's cell before and after each run."""
QUIET_SPEED = 14.8
"""Speed of that cell relative to real time, on the machine of doc/bench."""


def yardstick(cell: Cell) -> float:
    """Return the processor time of the bench's cell per simulated second [s]."""
    begin = time.process_time()
    cell.step(YARDSTICK)
    return (time.process_time() - begin) * cell.config.cell.rate / YARDSTICK


def rigs(seconds: float, seed: int) -> dict[str, TaskCell]:
    """Return all tasks with their controllets, on a perturbed plant and on its twin."""
    with tempfile.TemporaryDirectory() as folder:
        plant = Path(folder) / "plant.yaml"
        if multipanda(["perturb", str(CELL), "-o", str(plant), "--seed", str(seed)]):
            sys.exit(1)
        sides = {"plant": CellConfig.from_yaml(plant), "twin": CellConfig.from_yaml(CELL)}
    return {
        f"{side}, task {number} ({law})": TaskCell(make_task(number, law, seconds), config)
        for side, config in sides.items()
        for number in TASKS
        for law in make_task(number).controllets
    }


def main() -> None:
    """Measure all tasks in rounds and print their speed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="duration of each run, default 2"
    )
    parser.add_argument("--seed", type=int, default=3, help="seed of the plant, default 3")
    options = parser.parse_args()
    cells = rigs(options.seconds, options.seed)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cells}
    settled: dict[str, float] = {}
    with condition_cell(CONDITIONS[0]) as bench:
        bench.step(YARDSTICK)
        for rig in cells.values():
            rig.run(0)  # builds the scene
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for name, rig in cells.items():
                before, begin = yardstick(bench), time.process_time()
                run = rig.run(number)
                taken = time.process_time() - begin
                # The simulated time includes the time to settle before the first target.
                simulated_time = (
                    float(rig.cell.latest_record()["time"]) if rig.cell is not None else np.nan
                )
                settled[name] = simulated_time - options.seconds
                each = taken / simulated_time
                found[name].append((each, each / (0.5 * (before + yardstick(bench)))))
                if run.fault:
                    print(f"{name}: {run.fault}", file=sys.stderr)
    total = np.zeros(2)
    for name, rows in found.items():
        each, ratio = np.median(rows, axis=0)
        times = REPEATS if name.startswith("plant") else 1
        total += times * (DURATION + settled[name]) * np.array([each, ratio])
        print(
            f"{name:34} {1e6 * each / 1e3:6.0f} us per cycle, {ratio:5.2f} times the bench's cell"
        )
    for rig in cells.values():
        rig.close()
    simulated = DURATION * sum(REPEATS if name.startswith("plant") else 1 for name in cells)
    requested = DURATION * REPEATS * len(cells)
    print(
        f"all tasks, {REPEATS} repeats of {DURATION:g} s: {total[0]:.0f} s of processor "
        f"time; {simulated / total[0]:.1f} times real time for the {simulated:g} s that are "
        f"simulated, {requested / total[0]:.1f} times for the {requested:g} s of both sides\n"
        f"where the bench's cell runs at {QUIET_SPEED:g} times real time: "
        f"{total[1] / QUIET_SPEED:.0f} s, "
        f"{simulated * QUIET_SPEED / total[1]:.1f} and "
        f"{requested * QUIET_SPEED / total[1]:.1f} times"
    )


if __name__ == "__main__":
    main()
