# SPDX-License-Identifier: Apache-2.0
"""The whole node on simulated arms: time of its loop under every condition, and of switches."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.bench.conditions import (
    CONDITIONS,
    PLAIN,
    all_conditions,
    instances_of,
    two_arms,
)
from multipanda_py.bench.floor import Floor
from multipanda_py.bench.node import BenchNode, read_sent, ros_environment
from multipanda_py.bench.processes import UsageMeter
from multipanda_py.bench.rows import (
    SLOW,
    CycleTimes,
    cycle_times,
    summary,
    topic_to_use,
    watch,
)
from multipanda_py.exceptions import BenchError
from multipanda_py.state import Vector

FLOOR_SECONDS = 3.0
"""Of the loop in C after each condition, at most: the node misses its loop meanwhile [s]."""
PLAIN_SECONDS = 5.0
"""Of measuring the way from a topic to the loop, at most [s]."""
Samples = dict[str, dict[str, Vector]]


def paced(
    seconds: float, trials: int, folder: Path, say: Callable[[str], None]
) -> tuple[dict[str, Any], Samples]:
    """Run the node under each condition while targets stream, then switch it.

    Args:
        seconds: Of each condition.
        trials: Number of switches.
        folder: For files.
        say: Told of progress.

    Returns:
        Figures by condition (``conditions``), of switches (``switching``) and of the start; and by
        condition what is drawn: ``control``, ``floor`` ..., ``switching`` [us].
    """
    data = all_conditions(two_arms(backend="mujoco", hand=True), f"bench_{os.getpid()}")
    floor, sent = _floor(folder, say), folder / "sent.npy"
    figures: dict[str, Any] = {}
    samples: Samples = {}
    with BenchNode(data, folder, ros_environment()) as node:
        for condition, user in node.under_each((*CONDITIONS[:-1], PLAIN, CONDITIONS[-1]), sent):
            if condition == PLAIN:
                say("measuring the way from a topic to the loop")
                plain = watch(node.rows, min(seconds, PLAIN_SECONDS))
                continue
            say(f"measuring {condition} on simulated arms")
            meter = UsageMeter([*node.pids, user.pid, os.getpid()])
            timing = watch(node.rows, seconds)
            usage = [asdict(one) for one in meter.read()]
            figures[condition], samples[condition] = _figures(timing, usage)
            below = under_the_same_load(floor, node.loop, min(seconds, FLOOR_SECONDS))
            if below is not None:
                late, missed = below
                samples[condition]["floor"] = late
                figures[condition]["floor"] = {
                    "lateness_us": summary(late), "cycles": len(late), "missed": missed,
                }  # fmt: skip
            node.check()
        delays, answered = switching(node, trials)
        found = {"start_to_active_s": node.start_to_active, "conditions": figures}
    published = read_sent(sent)
    used = topic_to_use(plain, published)
    found["topic_to_use_us"] = summary(used)
    found["targets_per_second"] = (len(published) - 1) / float(np.ptp(published[:, 0]))
    found["switching"] = {
        "trials": trials,
        "mean_ms": float(delays.mean()) * 1e-3,
        "std_ms": float(delays.std()) * 1e-3,
        "delay_us": summary(delays),
        "service_us": summary(answered),
    }
    samples["switching"] = {"delay": delays, "topic to use": used}
    return found, samples


def _floor(folder: Path, say: Callable[[str], None]) -> Floor | None:
    try:
        return Floor(folder)
    except BenchError as error:
        say(str(error))
        return None


def _figures(
    timing: CycleTimes, usage: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Vector]]:
    times = cycle_times(timing)
    figures: dict[str, Any] = {f"{name}_us": summary(values) for name, values in times.items()}
    return {**figures, **counts(timing), "processes": usage}, times


def counts(timing: CycleTimes) -> dict[str, int]:
    """Return how many cycles there were, and how many were late for a robot or left out."""
    times = cycle_times(timing)
    return {
        "cycles": len(timing.wake),
        "over_300_us": int((times["lateness"] + times["control"] > SLOW).sum()),
        "missed": int(timing.missed[-1] - timing.missed[0]),
        "held": int(timing.held.sum()),
        "not_seen": timing.dropped,
    }


def under_the_same_load(
    floor: Floor | None, loop: int, seconds: float
) -> tuple[Vector, int] | None:
    """Stop a loop and let one in C have its core and priority; messages go on meanwhile."""
    if floor is None:
        return None
    cores, policy = os.sched_getaffinity(loop), os.sched_getscheduler(loop)
    priority = os.sched_getparam(loop).sched_priority if policy == os.SCHED_FIFO else 0
    os.kill(loop, signal.SIGSTOP)
    try:
        return floor.run(seconds, max(cores) if len(cores) == 1 else -1, priority)
    finally:
        os.kill(loop, signal.SIGCONT)


def switching(node: BenchNode, trials: int) -> tuple[Vector, Vector]:
    """Switch to and fro by the ROS service, at random phases of the loop.

    Returns:
        From the request to the first cycle of the new laws, and until the answer, (trials,) [us].
    """
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
