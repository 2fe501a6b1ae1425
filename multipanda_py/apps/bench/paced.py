# SPDX-License-Identifier: Apache-2.0
"""Timing of the node with simulated arms: its loop under every condition, and its switches."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.apps.bench.conditions import (
    CONDITIONS,
    PLAIN_CONDITION,
    all_conditions,
    instances_of,
    two_arms,
)
from multipanda_py.apps.bench.node import BenchNode, read_sent_targets, ros_environment
from multipanda_py.apps.bench.processes import UsageMeter
from multipanda_py.apps.bench.records import (
    LATE_COMMAND_TIME,
    CycleTimes,
    collect_cycle_times,
    cycle_times,
    measure_without_holds,
    summary,
    topic_to_use,
)
from multipanda_py.exceptions import BenchError
from multipanda_py.state import Vector

SOURCE = Path(__file__).with_name("floor.c")


class BaselineLoop:
    """Loop at 1 kHz, written in C, that computes nothing.

    The machine alone makes its cycles late, so their lateness is a lower bound for the loop of the
    node.

    Args:
        folder: Folder for the compiled program.

    Raises:
        BenchError: No C compiler is found, or compilation fails.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            raise BenchError("reference loop in C: found no C compiler. Install gcc to measure it")
        self._program = folder / "floor"
        done = subprocess.run(
            [compiler, "-O2", "-o", str(self._program), str(SOURCE)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BenchError(f"{SOURCE.name} does not compile: {done.stderr.strip()}")

    def run(self, seconds: float, cpu: int, priority: int) -> tuple[Vector, int]:
        """Run the C loop and return the lateness of its cycles.

        Args:
            seconds: Duration [s].
            cpu: Core to run on; -1 for any core.
            priority: SCHED_FIFO priority; 0 for normal scheduling.

        Returns:
            Lateness of each cycle [us], and the number of missed cycles.
        """
        out = subprocess.run(
            [str(self._program), str(seconds), str(cpu), str(priority)],
            check=True, capture_output=True, text=True,
        ).stdout.split()  # fmt: skip
        return np.array(out[:-2], dtype=np.float64) * 1e-3, int(out[-1])


def switching(node: BenchNode, trials: int) -> tuple[dict[str, Any], Vector]:
    """Measure the delays of switches between two controllets, requested at random times.

    Returns:
        Data for the report, and the delays from each request to the first cycle of the new
            controllets, (trials,) [us]. After a failure, the reason (``trouble``) and no delays.
    """
    try:
        delays, answered = _switch_delays(node, trials)
    except BenchError as error:  # Results of other measurements must not be lost.
        return {"trouble": f"{error}"}, np.zeros(0)
    figures = {
        "trials": trials,
        "mean_ms": float(delays.mean()) * 1e-3,
        "std_ms": float(delays.std()) * 1e-3,
        "delay_us": summary(delays),
        "service_us": summary(answered),
    }
    return figures, delays


def _switch_delays(node: BenchNode, trials: int) -> tuple[Vector, Vector]:
    """Return the delays until the first cycle, and until the response, both (trials,) [us]."""
    rng = np.random.default_rng(0)
    pair = instances_of(CONDITIONS[0]), instances_of(CONDITIONS[1])
    delays, answered = [], []
    for trial in range(trials):
        time.sleep(float(rng.uniform(0.02, 0.05)))
        message, took = node.timed_switch(pair[trial % 2])
        match = re.search(r"([0-9.]+) ms from request", message)
        if match is None:
            raise BenchError(f"switch: response {message!r} does not contain the delay")
        delays.append(float(match[1]) * 1e3)
        answered.append(took * 1e6)
    return np.array(delays), np.array(answered)


FLOOR_SECONDS = 3.0
"""Maximum duration of the C loop after each condition [s]; it stops the node's loop meanwhile."""
PLAIN_SECONDS = 5.0
"""Maximum duration of the measurement of the delay from a topic to the loop [s]."""
Samples = dict[str, dict[str, Vector]]


def paced(
    seconds: float, trials: int, folder: Path, log: Callable[[str], None]
) -> tuple[dict[str, Any], Samples]:
    """Measure the loop of the node under each condition, then its switches.

    Args:
        seconds: Duration of each condition [s].
        trials: Number of switches.
        folder: Folder for temporary files.
        log: Callback for progress messages.

    Returns:
        Data for the report, and samples for the plots by condition and measured quantity [us].
    """
    data = all_conditions(two_arms(backend="mujoco", gripper=True), f"bench_{os.getpid()}")
    sent_log, baseline = folder / "sent.npy", _compiled_baseline(folder, log)
    samples: Samples = {}
    figures: dict[str, Any] = {}
    used = np.zeros(0)
    with BenchNode(data, folder, ros_environment()) as node:
        result: dict[str, Any] = {"start_to_active_s": node.start_to_active, "conditions": figures}
        plain = None
        try:
            plain = _measure_conditions(node, baseline, seconds, sent_log, log, figures, samples)
        except BenchError as error:  # Conditions measured so far keep their figures.
            for condition in CONDITIONS:
                figures.setdefault(condition, {"trouble": f"{error}"})
        if sent_log.is_file():
            published = read_sent_targets(sent_log)
            result["targets_per_second"] = (len(published) - 1) / float(np.ptp(published[:, 0]))
            used = used if plain is None else topic_to_use(plain, published)
        result["topic_to_use_us"] = summary(used)
        result["switching"], delays = switching(node, trials)
    samples["switching"] = {"delay": delays, "topic to use": used}
    return result, samples


def _measure_conditions(
    node: BenchNode,
    baseline: BaselineLoop | None,
    seconds: float,
    sent_log: Path,
    log: Callable[[str], None],
    figures: dict[str, Any],
    samples: Samples,
) -> CycleTimes | None:
    plain = None
    desired = (*CONDITIONS[:-1], PLAIN_CONDITION, CONDITIONS[-1])
    with node.each_condition(desired, sent_log) as each:
        for condition, generator in each:
            if condition == PLAIN_CONDITION:
                log("measuring the delay from a topic to the loop")
                # If it fails, the report lacks this delay; all other results stay valid.
                with contextlib.suppress(BenchError):
                    plain, _ = _measure(
                        node, condition, generator.pid, min(seconds, PLAIN_SECONDS)
                    )
                continue
            log(f"measuring {condition} on simulated arms")
            try:
                timing, usage = _measure(node, condition, generator.pid, seconds)
            except BenchError as error:
                figures[condition] = {"trouble": f"{error}"}
                continue
            figures[condition], samples[condition] = _figures(timing, usage)
            below = run_baseline_under_same_load(baseline, node.loop, min(seconds, FLOOR_SECONDS))
            if below is not None:
                late, missed = below
                samples[condition]["floor"] = late
                figures[condition]["floor"] = {
                    "lateness_us": summary(late), "cycles": len(late), "missed": missed,
                }  # fmt: skip
    return plain


def _measure(
    node: BenchNode, condition: str, generator_pid: int, seconds: float
) -> tuple[CycleTimes, list[dict[str, Any]]]:
    def both() -> tuple[list[CycleTimes], list[dict[str, Any]]]:
        meter = UsageMeter([*node.pids, generator_pid, os.getpid()])
        timing = collect_cycle_times(node.rows, seconds)
        return [timing], [asdict(one) for one in meter.read()]

    (timing,), usage = measure_without_holds({node: instances_of(condition)}, both)
    return timing, usage


def _compiled_baseline(folder: Path, log: Callable[[str], None]) -> BaselineLoop | None:
    try:
        return BaselineLoop(folder)
    except BenchError as error:
        log(str(error))
        return None


def _figures(
    timing: CycleTimes, usage: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Vector]]:
    times = cycle_times(timing)
    figures: dict[str, Any] = {f"{name}_us": summary(values) for name, values in times.items()}
    return {**figures, **counts(timing), "processes": usage}, times


def counts(timing: CycleTimes) -> dict[str, int]:
    """Return the numbers of all cycles, and of late, missed, held and unrecorded ones, by name."""
    times = cycle_times(timing)
    return {
        "cycles": len(timing.wake),
        "over_300_us": int((times["lateness"] + times["control"] > LATE_COMMAND_TIME).sum()),
        "missed": int(timing.missed[-1] - timing.missed[0]),
        "held": int(timing.held.sum()),
        "not_seen": timing.dropped,
    }


def run_baseline_under_same_load(
    baseline: BaselineLoop | None, loop: int, seconds: float
) -> tuple[Vector, int] | None:
    """Run the C loop in place of the node's loop, on the same cores with the same priority.

    Args:
        baseline: C loop; None if it could not be built.
        loop: Process id of the node's loop, which is paused meanwhile.
        seconds: Duration [s].

    Returns:
        Result of :meth:`BaselineLoop.run`; None without a C loop.
    """
    if baseline is None:
        return None
    cores, policy = os.sched_getaffinity(loop), os.sched_getscheduler(loop)
    priority = os.sched_getparam(loop).sched_priority if policy == os.SCHED_FIFO else 0
    os.kill(loop, signal.SIGSTOP)
    try:
        return baseline.run(seconds, max(cores) if len(cores) == 1 else -1, priority)
    finally:
        os.kill(loop, signal.SIGCONT)
