# SPDX-License-Identifier: Apache-2.0
"""One to eight arms in a cell, two cells on a machine: what each costs, where 1 kHz ends."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from multipanda_py.bench.child import Child
from multipanda_py.bench.conditions import Data, row_of_arms
from multipanda_py.bench.hot import FEATURES
from multipanda_py.bench.node import SETTLE, START, BenchNode, finish_user, ros_environment
from multipanda_py.bench.paced import counts
from multipanda_py.bench.processes import UsageMeter, cores_of
from multipanda_py.bench.rows import CycleTimes, cycle_times, summary, watch_all
from multipanda_py.bench.undisturbed import undisturbed
from multipanda_py.exceptions import BenchError

ROW = (1, 2, 4, 8)
"""Numbers of arms."""
CELLS = {
    "one cell": ("",),
    "two, a ROS domain each": ("", ""),
    "two on one domain": ("/one", "/two"),
}
"""Namespaces of the cells; without them each is on a domain of its own."""
PERIOD_US = 1000.0
"""Of a cycle at 1 kHz [us]."""
Say = Callable[[str], None]


def scaling(seconds: float, hot: Data, folder: Path, say: Say) -> dict[str, Any]:
    """Measure rows of arms and pairs of cells under the targets of a generator each.

    Args:
        seconds: Of each.
        hot: Costs in a hot loop, by number of arms; see :func:`multipanda_py.bench.hot.hot`.
        folder: For files.
        say: Told of progress.

    Returns:
        ``hot``, ``arms`` by number, ``cells`` by how they are apart, each with figures or its
        ``trouble``; ``end``: where 1 kHz ends.
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
    return {"hot": hot, "arms": arms, "cells": cells, "end": end_of_1_khz(arms)}


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
    """Run cells at the same time; return the figures of each, or why there are none."""
    try:
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
            time.sleep(SETTLE)

            def all_at_once() -> tuple[list[CycleTimes], list[list[dict[str, Any]]]]:
                meters = [UsageMeter([*n.pids, u.pid]) for n, u in zip(nodes, users)]
                timings = watch_all([node.rows for node in nodes], seconds)
                return timings, [[asdict(one) for one in meter.read()] for meter in meters]

            instances = {node: one["active"] for node, one in zip(nodes, data)}
            timings, usage = undisturbed(instances, all_at_once)
            rates = [finish_user(user) for user in users]
            return [_figures(*found) for found in zip(timings, usage, rates)]
    except BenchError as error:  # the machine is too small, or too busy, for these
        return [{"trouble": f"{error}"} for _ in data]


def _figures(timing: CycleTimes, usage: list[dict[str, Any]], rate: float) -> dict[str, Any]:
    return {
        **{f"{name}_us": summary(values) for name, values in cycle_times(timing).items()},
        **counts(timing),
        "processes": usage,
        "targets_per_second": rate,
    }


def end_of_1_khz(arms: Data) -> dict[str, float]:
    """Return at how many arms a cycle, its 99th percentile and the ROS process fill a core.

    By straight lines between the numbers of arms that were measured, and beyond them by one
    through the smallest and the largest, which are ``few`` and ``many``; infinity for what does
    not grow. Nothing if there are not two.
    """
    numbers = sorted(int(n) for n, found in arms.items() if "trouble" not in found)
    if len(numbers) < 2:
        return {}
    few, many = numbers[0], numbers[-1]

    def crossing(value: Callable[[Data], float], limit: float) -> float:
        at = {n: value(arms[f"{n}"]) for n in numbers}
        pairs = [*pairwise(numbers), (few, many)]
        a, b = next((pair for pair in pairs if at[pair[1]] >= limit), pairs[-1])
        slope = (at[b] - at[a]) / (b - a)
        return a + (limit - at[a]) / slope if slope > 0.0 else float("inf")

    return {
        "few": few,
        "many": many,
        "cycle_median": crossing(lambda row: float(row["cycle_us"]["median"]), PERIOD_US),
        "cycle_p99": crossing(lambda row: float(row["cycle_us"]["p99"]), PERIOD_US),
        "ros_process": crossing(lambda row: cores_of(row, "ros.node"), 1.0),
    }
