# SPDX-License-Identifier: Apache-2.0
"""What one cycle costs in a hot loop on a pinned core, and how fast inline mode runs."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py import Cell
from multipanda_py.cell.switch_planning import Strictness

CONFIG = Path(__file__).resolve().parents[2] / "config" / "dual_sim.yaml"


def measure(
    blocks: dict[str, Callable[[], Any]], rounds: int, repeat: int = 500
) -> dict[str, Any]:
    """Time the blocks in turn, so that a busy moment hits all of them; microseconds."""
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    clock = time.perf_counter_ns
    for _ in range(rounds):
        for name, block in blocks.items():
            for _ in range(20):
                block()
            mine = samples[name]
            for _ in range(repeat):
                begin = clock()
                block()
                mine.append((clock() - begin) * 1e-3)
    return {
        name: {
            "p50_us": float(np.percentile(values, 50)),
            "p99_us": float(np.percentile(values, 99)),
        }
        for name, values in samples.items()
    }


def benchmark(rounds: int = 20) -> dict[str, Any]:
    """Return the cost of every part of a dual-arm cycle, and the inline speed."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    with Cell.from_yaml(CONFIG, placement="inline") as cell:
        loop = cell.loop
        backend, arms = loop.backends[0], loop._arms
        cell.step(500)
        gc.collect()
        gc.freeze()
        gc.disable()
        a, out = np.ones((6, 7)), np.zeros((6, 6))

        def model() -> None:
            for arm in arms:
                arm.model.update(arm.state)

        def laws() -> None:
            model()
            for instance in loop._owners.active:
                instance.update()

        def traced() -> None:
            for instance in loop._owners.active:
                instance._terms.is_on = True
            laws()
            for instance in loop._owners.active:
                instance._terms.is_on = False

        def safety() -> None:
            loop._together.are_sound()
            loop._together.command()

        results = measure(
            {
                "model": model,
                "laws": laws,
                "laws_with_terms": traced,
                "safety": safety,
                "read": lambda: backend.read((0, 1)),
                "physics": lambda: backend.write((0, 1)),
                "record": lambda: loop._record(0, 0),
                "cycle": lambda: loop.cycle(1, 1),
                "calibration": lambda: np.dot(a, a.T, out),
            },
            rounds,
        )
        begin = time.perf_counter()
        cell.step(5000)
        results["inline_real_time_factor"] = 5.0 / (time.perf_counter() - begin)
        cell.switch(["dual_cartesian_impedance_controller"], strictness=Strictness.FORCE_AUTO)
        results |= {"laws_one_instance": measure({"laws": laws}, rounds)["laws"]}
        gc.enable()
        gc.unfreeze()
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return results
