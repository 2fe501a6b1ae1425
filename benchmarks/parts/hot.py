# SPDX-License-Identifier: Apache-2.0
"""Processor time of blocks of code in a hot loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CONFIG = Path(__file__).resolve().parents[2] / "config" / "dual_sim.yaml"


def measure(
    blocks: dict[str, Callable[[], Any]], rounds: int, repeat: int = 500
) -> dict[str, Any]:
    """Return median and 99th percentile of the time of each block [us].

    The blocks alternate, so that other load affects all of them.
    """
    samples: dict[str, list[float]] = {name: [] for name in blocks}
    clock = time.perf_counter_ns
    for _ in range(rounds):
        for name, block in blocks.items():
            for _ in range(20):
                block()
            own = samples[name]
            for _ in range(repeat):
                begin = clock()
                block()
                own.append((clock() - begin) * 1e-3)
    return {
        name: {
            "p50_us": float(np.percentile(values, 50)),
            "p99_us": float(np.percentile(values, 99)),
        }
        for name, values in samples.items()
    }
