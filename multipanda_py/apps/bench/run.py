# SPDX-License-Identifier: Apache-2.0
"""Run of all parts of the benchmark. The report lists parts that failed or were not run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import multipanda_py
from multipanda_py.apps.bench.conditions import COUPLED_CONDITION, Data, Effort, row_of_arms
from multipanda_py.apps.bench.hot import FEATURES
from multipanda_py.apps.bench.node import (
    SETTLE_TIME,
    START_TIMEOUT,
    BenchNode,
    ros_environment,
    stop_generator,
)
from multipanda_py.apps.bench.paced import Samples, counts, paced
from multipanda_py.apps.bench.processes import Child, UsageMeter, cores_of
from multipanda_py.apps.bench.records import (
    CycleTimes,
    collect_all_cycle_times,
    cycle_times,
    measure_without_holds,
    summary,
)
from multipanda_py.apps.bench.wired import wired
from multipanda_py.exceptions import BenchError, MultipandaError
from multipanda_py.realtime.system.checks import machine_facts
from multipanda_py.realtime.system.child_process import end_with_parent, module_command
from multipanda_py.realtime.system.dds import remove_leftovers

ARM_COUNTS = (1, 2, 4, 8)
"""Measured numbers of arms in a row."""
CELL_NAMESPACES = {
    "one cell": ("",),
    "two, a ROS domain each": ("", ""),
    "two on one domain": ("/one", "/two"),
}
"""Namespaces of the cells; a cell without a namespace has a private ROS domain."""
PERIOD_US = 1000.0
"""Period of a cycle at 1 kHz [us]."""
LogFunction = Callable[[str], None]


def scaling(seconds: float, hot: Data, folder: Path, log: LogFunction) -> dict[str, Any]:
    """Measure nodes with different numbers of arms, and two nodes at the same time.

    Args:
        seconds: Duration of each measurement [s].
        hot: Computing times by number of arms, from :func:`rows_hot`.
        folder: Folder for temporary files.
        log: Callback for progress messages.

    Returns:
        Results by key; a failed measurement only has the key ``trouble`` with the reason:

        - ``hot``: the argument ``hot``.
        - ``arms``: measurement of one node, by number of arms.
        - ``cells``: measurements of each node, by key of :data:`CELL_NAMESPACES`.
        - ``end``: result of :func:`end_of_1_khz`.
    """
    arms = {}
    for n in ARM_COUNTS:
        log(f"measuring {n} arms")
        (arms[f"{n}"],) = _run_nodes_together(
            [_row(n, f"row_{n}")], [""], [ros_environment()], seconds, folder
        )
    cells = {}
    for how, namespaces in CELL_NAMESPACES.items():
        log(f"measuring {how} of two arms")
        data = [_row(2, f"cell_{k}") for k in range(len(namespaces))]
        first = int(ros_environment()["ROS_DOMAIN_ID"])
        environments = [
            ros_environment(first if name else 1 + (first + k) % 100)
            for k, name in enumerate(namespaces)
        ]
        cells[how] = _run_nodes_together(data, namespaces, environments, seconds, folder)
    return {"hot": hot, "arms": arms, "cells": cells, "end": end_of_1_khz(arms)}


def _row(n: int, name: str) -> Data:
    data = row_of_arms(n, FEATURES)
    data["cell"] = {"name": f"bench_{name}_{os.getpid()}"}
    return data


def _run_nodes_together(
    data: Sequence[Data],
    namespaces: Sequence[str],
    environments: Sequence[dict[str, str]],
    seconds: float,
    folder: Path,
) -> list[dict[str, Any]]:
    try:
        with contextlib.ExitStack() as stack:
            nodes, generators = [], []
            for one, namespace, environment in zip(data, namespaces, environments):
                node = stack.enter_context(BenchNode(one, folder, environment, namespace))
                bases = [f"{arm}=0" for arm in one["arms"]]
                remap = ["--namespace", namespace] if namespace else []
                generator = stack.enter_context(
                    Child("multipanda_py.ros.client.motion_generator", *bases, "--each", *remap,
                          environment=environment)
                )  # fmt: skip
                generator.wait_until_ready(START_TIMEOUT)
                nodes.append(node)
                generators.append(generator)
            time.sleep(SETTLE_TIME)

            def all_at_once() -> tuple[list[CycleTimes], list[list[dict[str, Any]]]]:
                meters = [UsageMeter([*n.pids, u.pid]) for n, u in zip(nodes, generators)]
                timings = collect_all_cycle_times([node.rows for node in nodes], seconds)
                return timings, [[asdict(one) for one in meter.read()] for meter in meters]

            instances = {node: one["active"] for node, one in zip(nodes, data)}
            timings, usage = measure_without_holds(instances, all_at_once)
            rates = [stop_generator(generator) for generator in generators]
            return [_figures(*result) for result in zip(timings, usage, rates)]
    except BenchError as error:  # The machine may be too slow for so many cells.
        return [{"trouble": f"{error}"} for _ in data]


def _figures(timing: CycleTimes, usage: list[dict[str, Any]], rate: float) -> dict[str, Any]:
    return {
        **{f"{name}_us": summary(values) for name, values in cycle_times(timing).items()},
        **counts(timing),
        "processes": usage,
        "targets_per_second": rate,
    }


def end_of_1_khz(arms: Data) -> dict[str, float]:
    """Estimate the maximum number of arms at 1 kHz by linear interpolation and extrapolation.

    Args:
        arms: Measurements by number of arms.

    Returns:
        Numbers of arms by key; empty with fewer than two measurements:

        - ``few`` and ``many``: smallest and largest measured number.
        - ``cycle_median``: number at which the median of the cycle time reaches 1 ms.
        - ``cycle_p99``: number at which the 99th percentile of the cycle time reaches 1 ms.
        - ``ros_process``: number at which the ROS process fully uses a core.

        A number is infinite if cycle time or load does not grow with the number of arms.
    """
    numbers = sorted(int(n) for n, result in arms.items() if "trouble" not in result)
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
        "ros_process": crossing(lambda row: cores_of(row, "ros.node.node"), 1.0),
    }


CPP_BENCHMARK = Path(multipanda_py.__file__).resolve().parents[1] / "benchmarks" / "cpp" / "run.py"
"""Benchmark of the same control laws in C++; only in a checkout, because it needs a compiler."""
_CPP_NAMES = {"CDC-MA": COUPLED_CONDITION}
_CPP_TIMEOUT = 900.0  # Time limit for compiling with pinocchio's headers and running [s].


def run(effort: Effort, log: LogFunction) -> tuple[dict[str, Any], dict[str, Samples]]:
    """Run the benchmark, except parts whose dependencies are not installed.

    Args:
        effort: Extent of the benchmark, with the parts to run.
        log: Callback for progress messages.

    Returns:
        Report, and samples for the plots by part of the benchmark.
    """
    report: dict[str, Any] = {
        "machine": machine_facts(),
        "effort": asdict(effort),
        "left_out": {},
    }
    samples: dict[str, Samples] = {}

    def part(name: str, needs: tuple[str, ...], measure: Callable[[], Any]) -> None:
        if name not in effort.parts:
            report["left_out"][name] = "not requested"
            return
        missing = [module for module in needs if find_spec(module) is None]
        try:
            if missing:
                raise BenchError(f"{', '.join(missing)} not installed")
            report[name] = measure()
        except (MultipandaError, OSError) as error:
            report["left_out"][name] = f"{error}"
            log(f"left out: {name}: {error}")

    def kept(name: str, figures: dict[str, Any], drawn: Samples) -> dict[str, Any]:
        samples[name] = drawn
        return figures

    try:
        with tempfile.TemporaryDirectory(prefix="multipanda_bench_") as temporary:
            folder = Path(temporary)
            part("hot", ("mujoco",), lambda: hot(effort.rounds, (), log))
            part("cpp", (), lambda: cpp(log))
            ros = ("rclpy", "controller_manager_msgs")
            part("paced", ("mujoco", *ros), lambda: kept(
                "paced", *paced(effort.seconds, effort.trials, folder, log)))  # fmt: skip
            part("wired", ("mujoco", "pylibfranka", *ros), lambda: kept(
                "wired", *wired(effort.seconds, folder, log)))  # fmt: skip
            part("scaling", ("mujoco", *ros), lambda: scaling(
                effort.seconds, rows_hot(effort.rounds, log), folder, log))  # fmt: skip
    finally:  # Killed processes leave shared memory behind.
        remove_leftovers()
    return report, samples


def hot(rounds: int, rows: tuple[int, ...], log: LogFunction) -> dict[str, Any]:
    """Run :func:`multipanda_py.apps.bench.hot.hot` in a child process; ``log`` gets its progress.

    Raises:
        BenchError: The measurement fails.
    """
    log("measuring controllets in a hot loop")
    command = module_command("multipanda_py.apps.bench.hot", str(rounds), *map(str, rows))
    return _json_of(command, 60.0 + 20.0 * rounds)


def rows_hot(rounds: int, log: LogFunction) -> dict[str, Any]:
    """Measure computing times with 1 to 8 arms; the result is empty if the measurement fails."""
    try:
        return hot(rounds, ARM_COUNTS, log)
    except BenchError as error:
        log(f"left out: controllets and physics in a hot loop: {error}")
        return {}


def cpp(log: LogFunction) -> dict[str, Any]:
    """Build and measure the C++ versions of the control laws, for comparison.

    Raises:
        BenchError: The C++ benchmark cannot be built or run; the message gives the reason.
    """
    if not CPP_BENCHMARK.is_file():
        raise BenchError("benchmarks/cpp: missing. Run this part in a checkout of the repository")
    log("building and measuring the control laws in C++")
    result = _json_of([sys.executable, str(CPP_BENCHMARK), "--json"], _CPP_TIMEOUT)
    return {_CPP_NAMES.get(name, name): figures for name, figures in result.items()}


def _json_of(command: list[str], timeout: float) -> dict[str, Any]:
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # In a new session, killpg ends the command together with the compiler that it may start.
        env=os.environ | threads, start_new_session=True,
        preexec_fn=end_with_parent,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(error, subprocess.TimeoutExpired):
            raise BenchError(f"{command[-1]}: did not end within {timeout:g} s") from None
        raise
    if process.returncode:
        lines = (err or out).strip().splitlines()
        raise BenchError(lines[-1] if lines else f"ended with code {process.returncode}")
    result: dict[str, Any] = json.loads(out[out.index("{") :])
    return result
