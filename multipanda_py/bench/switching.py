# SPDX-License-Identifier: Apache-2.0
"""How long switches by the ROS service take."""

from __future__ import annotations

import re
import time
from typing import Any

import numpy as np

from multipanda_py.bench.conditions import CONDITIONS, instances_of
from multipanda_py.bench.node import BenchNode
from multipanda_py.bench.rows import summary
from multipanda_py.exceptions import BenchError
from multipanda_py.state import Vector


def switching(node: BenchNode, trials: int) -> tuple[dict[str, Any], Vector]:
    """Switch to and fro, at random phases of the loop.

    Returns:
        Figures, or ``trouble``; and what is drawn: from the request to the first cycle of the new
        laws, (trials,) [us].
    """
    try:
        delays, answered = _trials(node, trials)
    except BenchError as error:  # what was measured before stays
        return {"trouble": f"{error}"}, np.zeros(0)
    figures = {
        "trials": trials,
        "mean_ms": float(delays.mean()) * 1e-3,
        "std_ms": float(delays.std()) * 1e-3,
        "delay_us": summary(delays),
        "service_us": summary(answered),
    }
    return figures, delays


def _trials(node: BenchNode, trials: int) -> tuple[Vector, Vector]:
    """Return until the first cycle of the new laws, and until the answer [us]."""
    rng = np.random.default_rng(0)
    pair = instances_of(CONDITIONS[0]), instances_of(CONDITIONS[1])
    delays, answered = [], []
    for trial in range(trials):
        time.sleep(float(rng.uniform(0.02, 0.05)))
        message, took = node.timed_switch(pair[trial % 2])
        found = re.search(r"([0-9.]+) ms from request", message)
        if found is None:
            raise BenchError(f"no delay in {message!r}")
        delays.append(float(found[1]) * 1e3)
        answered.append(took * 1e6)
    return np.array(delays), np.array(answered)
