# SPDX-License-Identifier: Apache-2.0
"""How fast `multipanda validate` is, in turn with the cell whose speed `multipanda bench` says.

    .venv/bin/python benchmarks/validate_speed.py
    .venv/bin/python benchmarks/validate_speed.py --rounds 10 --seconds 10

All times are of one processor. What takes turns is hit alike by what else the machine does, so
that the ratio of both holds where seconds do not: times the speed of the bench's inline cell on
a quiet machine it is that of the tasks there.
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
REPEATS, LONG = 5, 10.0
"""Of the whole: repeats, and how long each is [s]."""
YARDSTICK = 1000
"""Cycles of the bench's cell before and after every run."""
QUIET = 14.8
"""How many times real time that cell runs at on the machine of doc/bench."""


def yardstick(cell: Cell) -> float:
    """Return what a second of the bench's cell takes [s]."""
    begin = time.process_time()
    cell.step(YARDSTICK)
    return (time.process_time() - begin) * cell.config.cell.rate / YARDSTICK


def rigs(seconds: float, seed: int) -> dict[str, TaskCell]:
    """Return every task and law on a perturbed plant and on its twin."""
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
    """Measure in rounds, and say what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="default 3")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run, default 2")
    parser.add_argument("--seed", type=int, default=3, help="of the plant, default 3")
    options = parser.parse_args()
    cells = rigs(options.seconds, options.seed)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in cells}
    settled: dict[str, float] = {}
    with condition_cell(CONDITIONS[0]) as bench:
        bench.step(YARDSTICK)
        for rig in cells.values():
            rig.run(0)  # builds the scene
        for turn in range(options.rounds):
            print(f"round {turn + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for name, rig in cells.items():
                before, begin = yardstick(bench), time.process_time()
                run = rig.run(turn)
                taken = time.process_time() - begin
                # the world's time: what settles before the first target is simulated, too
                world = float(rig.cell.latest_record()["time"]) if rig.cell is not None else np.nan
                settled[name] = world - options.seconds
                each = taken / world
                found[name].append((each, each / (0.5 * (before + yardstick(bench)))))
                if run.fault:
                    print(f"{name}: {run.fault}", file=sys.stderr)
    total = np.zeros(2)
    for name, rows in found.items():
        each, ratio = np.median(rows, axis=0)
        times = REPEATS if name.startswith("plant") else 1
        total += times * (LONG + settled[name]) * np.array([each, ratio])
        print(f"{name:34} {1e6 * each / 1e3:6.0f} us a cycle, {ratio:5.2f} times the bench's cell")
    for rig in cells.values():
        rig.close()
    simulated = LONG * sum(REPEATS if name.startswith("plant") else 1 for name in cells)
    requested = LONG * REPEATS * len(cells)
    print(
        f"all tasks, {REPEATS} repeats of {LONG:g} s: {total[0]:.0f} s of one processor, as busy "
        f"as this one is; {simulated / total[0]:.1f} times as fast as the {simulated:g} s that "
        f"are simulated, {requested / total[0]:.1f} as the {requested:g} s of both sides\n"
        f"where the bench's cell runs at {QUIET:g} times real time: {total[1] / QUIET:.0f} s, "
        f"{simulated * QUIET / total[1]:.1f} and {requested * QUIET / total[1]:.1f} times"
    )


if __name__ == "__main__":
    main()
