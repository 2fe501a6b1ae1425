# SPDX-License-Identifier: Apache-2.0
"""Computing times of controllets, robot models and simulation without waiting between calls.

Run it with ``python -m multipanda_py.apps.bench.hot ROUNDS [N ...]``, where each N is a number of
arms. It prints JSON. The process stays on one core and disables garbage collection.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from multipanda_py.apps.bench.conditions import (
    CONDITIONS,
    FORCE_CONDITION,
    condition_cell,
    inline_cell,
    row_of_arms,
)
from multipanda_py.cell import Cell
from multipanda_py.realtime.cycle import ControlLoop

FEATURES = ("collision_avoidance", "manipulability")
SETTLE_CYCLES = 300
"""Number of cycles before the first measurement."""
_WARMUP_CYCLES = 20  # Number of untimed calls before each series of timed calls.
_REPEATS = 300  # Number of timed calls per series.
_INLINE_CYCLES = 3000  # Number of cycles that measure the speed of an inline cell.

Block = Callable[[], object]


def measure(blocks: dict[str, Block], rounds: int, repeat: int = _REPEATS) -> dict[str, Any]:
    """Measure the computing time of functions.

    Args:
        blocks: Functions to time, by name. They take turns.
        rounds: Number of rounds over all functions.
        repeat: Number of timed calls of each function per round.

    Returns:
        Median and 99th percentile of each function's time [us].
    """
    samples: dict[str, list[int]] = {name: [] for name in blocks}
    clock = time.perf_counter_ns
    for _ in range(rounds):
        for name, block in blocks.items():
            for _ in range(_WARMUP_CYCLES):
                block()
            mine = samples[name]
            for _ in range(repeat):
                start = clock()
                block()
                mine.append(clock() - start)
    return {
        name: dict(zip(("median_us", "p99_us"), (np.percentile(v, [50, 99]) * 1e-3).tolist()))
        for name, v in samples.items()
    }


def models_of(loop: ControlLoop) -> Block:
    """Return a function that updates the robot models of all arms once."""
    arms = loop.arms

    def models() -> None:
        for arm in arms:
            arm.model.update(arm.state)

    return models


def laws_of(cell: Cell) -> Block:
    """Return a function that updates robot models and active controllets of a cell once."""
    loop = cell.loop
    models = models_of(loop)
    active = [instance for instance in loop.instances if instance.active]

    def laws() -> None:
        models()
        for instance in active:
            instance.update()

    return laws


def parts_of(cell: Cell) -> dict[str, Block]:
    """Return functions that each run one part of the control cycle of a started cell, by name."""
    loop = cell.loop
    backend, everyone = loop.backends[0], range(len(loop.arms))
    return {
        "models": models_of(loop),
        "reading": lambda: backend.read(everyone),
        "physics": lambda: backend.write(everyone),
        "whole cycle": lambda: loop.cycle(1, 1),
    }


def inline_speed(cell: Cell, cycles: int = _INLINE_CYCLES) -> float:
    """Return the real-time factor (simulated per wall time) of a started inline cell."""
    start = time.perf_counter()
    cell.step(cycles)
    return cycles / cell.config.cell.rate / (time.perf_counter() - start)


def hot(rounds: int, rows: tuple[int, ...] = ()) -> dict[str, Any]:
    """Measure computing times for every benchmark condition, or for several numbers of arms.

    Args:
        rounds: Number of rounds of timed calls.
        rows: Numbers of arms; empty to measure the conditions, which have two arms.

    Returns:
        Results of :func:`measure` by name of the function, and real-time factors under names that
            end in ``inline``.
    """
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if rows:
        cells = {f"{n}": inline_cell(row_of_arms(n, ())) for n in rows}
        cells |= {f"{n} CA-MA": inline_cell(row_of_arms(n, FEATURES)) for n in rows}
    else:
        cells = {name: condition_cell(name) for name in (*CONDITIONS, FORCE_CONDITION)}
    try:
        for cell in cells.values():
            cell.start()
            cell.step(SETTLE_CYCLES)
        blocks = {name: laws_of(cell) for name, cell in cells.items()}
        apart = cells if rows else {CONDITIONS[0]: cells[CONDITIONS[0]]}
        for name, cell in apart.items():
            blocks |= {f"{name}: {part}": block for part, block in parts_of(cell).items()}
        gc.collect()
        gc.freeze()
        gc.disable()
        result = measure(blocks, rounds)
        for name, cell in apart.items():
            result[f"{name}: inline"] = {"real_time_factor": inline_speed(cell)}
    finally:
        for cell in cells.values():
            cell.close()
    return result


if __name__ == "__main__":
    rounds, *rows = map(int, sys.argv[1:])
    json.dump(hot(rounds, tuple(rows)), sys.stdout)
