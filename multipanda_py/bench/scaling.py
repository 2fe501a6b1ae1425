# SPDX-License-Identifier: Apache-2.0
"""One to eight arms in a cell, two cells on a machine: what each costs, where 1 kHz ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from multipanda_py.bench.child import Child
from multipanda_py.bench.conditions import Data, row_of_arms
from multipanda_py.bench.hot import FEATURES
from multipanda_py.bench.node import START, BenchNode, ros_environment
from multipanda_py.bench.paced import counts
from multipanda_py.bench.processes import UsageMeter
from multipanda_py.bench.rows import CycleTimes, cycle_times, summary, watch
from multipanda_py.exceptions import BenchError

ROW = (1, 2, 4, 8)
"""Numbers of arms."""
CELLS = {
    "one cell": ("",),
    "two, a ROS domain each": ("", ""),
    "two on one domain": ("/one", "/two"),
}
"""Namespaces of the cells; without them each is on a domain of its own."""
_SETTLE = 2.0  # [s]
Say = Callable[[str], None]


def scaling(seconds: float, hot: Data, folder: Path, say: Say) -> dict[str, Any]:
    """Measure rows of arms and pairs of cells under the targets of a generator each.

    Args:
        seconds: Of each.
        hot: Costs in a hot loop, by number of arms; see :func:`multipanda_py.bench.hot.hot`.
        folder: For files.
        say: Told of progress.

    Returns:
        ``hot``, ``arms`` by number, ``cells`` by how they are apart, ``end``: where 1 kHz ends.
    """
    arms = {}
    for n in ROW:
        say(f"measuring {n} arms")
        (arms[f"{n}"],) = _together(
            [_row(n, f"row_{n}")], [""], [ros_environment()], seconds, folder
        )
    cells = {}
    for how, namespaces in CELLS.items():
        say(f"measuring {how} of two arms")
        data = [_row(2, f"cell_{k}") for k in range(len(namespaces))]
        first = int(ros_environment()["ROS_DOMAIN_ID"])
        environments = [
            ros_environment(first if name else 1 + (first + k) % 100)
            for k, name in enumerate(namespaces)
        ]
        cells[how] = _together(data, namespaces, environments, seconds, folder)
    return {"hot": hot, "arms": arms, "cells": cells, "end": end_of_1_khz(hot, arms)}


def _row(n: int, name: str) -> Data:
    data = row_of_arms(n, FEATURES)
    data["cell"] = {"name": f"bench_{name}_{os.getpid()}"}
    return data


def _together(
    data: Sequence[Data],
    namespaces: Sequence[str],
    environments: Sequence[dict[str, str]],
    seconds: float,
    folder: Path,
) -> list[dict[str, Any]]:
    """Run cells at the same time; return the figures of each."""
    with contextlib.ExitStack() as stack:
        nodes, users = [], []
        for one, namespace, environment in zip(data, namespaces, environments):
            node = stack.enter_context(BenchNode(one, folder, environment, namespace))
            bases = [f"{arm}=0" for arm in one["arms"]]
            remap = ["--namespace", namespace] if namespace else []
            user = stack.enter_context(
                Child("multipanda_py.ros.motion_generator", *bases, "--each", *remap,
                      environment=environment)
            )  # fmt: skip
            user.wait_until_ready(START)
            nodes.append(node)
            users.append(user)
        time.sleep(_SETTLE)
        meters = [UsageMeter([*n.pids, u.pid]) for n, u in zip(nodes, users)]
        for node in nodes[1:]:
            node.rows.take()
        found = watch(nodes[0].rows, seconds)
        figures = [_figures(found, meters[0])]
        for node, meter in zip(nodes[1:], meters[1:]):  # at once: all have run side by side
            figures.append(_figures(watch(node.rows, seconds), meter))
        for node in nodes:
            node.check()
    return figures


def _figures(timing: CycleTimes, meter: UsageMeter) -> dict[str, Any]:
    return {
        **{f"{name}_us": summary(values) for name, values in cycle_times(timing).items()},
        **counts(timing),
        "processes": [asdict(one) for one in meter.read()],
    }


def end_of_1_khz(hot: Data, arms: Data) -> dict[str, float]:
    """Return at how many arms a cycle, its 99th percentile and the ROS process fill a core.

    By a straight line through the smallest and the largest number of arms that were measured.

    Raises:
        BenchError: If fewer than two numbers of arms were measured.
    """
    numbers = sorted(int(n) for n in arms)
    if len(numbers) < 2:
        raise BenchError(f"got {len(numbers)} numbers of arms, a line needs two")
    few, many = numbers[0], numbers[-1]

    def crossing(at_few: float, at_many: float, limit: float) -> float:
        slope = (at_many - at_few) / (many - few)
        return few + (limit - at_few) / slope if slope > 0.0 else float("inf")

    def cores(n: int) -> float:
        taken = (p for p in arms[f"{n}"]["processes"] if p["name"] == "ros.node")
        return sum(float(one["cores"]) for one in taken)

    cycles = [arms[f"{n}"]["cycle_us"] for n in (few, many)]
    return {
        "cycle_median": crossing(cycles[0]["median"], cycles[1]["median"], 1000.0),
        "cycle_p99": crossing(cycles[0]["p99"], cycles[1]["p99"], 1000.0),
        "ros_process": crossing(cores(few), cores(many), 1.0),
    }
