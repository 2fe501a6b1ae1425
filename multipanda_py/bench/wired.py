# SPDX-License-Identifier: Apache-2.0
"""The whole node on simulated FCI robots: how long states and torques are under way."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from multipanda_py.bench.conditions import ARMS, CONDITIONS, all_conditions, instances_of
from multipanda_py.bench.delay import correlated_delay, stamped_delays
from multipanda_py.bench.node import BenchNode, ros_environment
from multipanda_py.bench.paced import Samples
from multipanda_py.bench.processes import UsageMeter
from multipanda_py.bench.robots import Answers, BenchRobots
from multipanda_py.bench.rows import CycleTimes, summary, watch
from multipanda_py.bench.undisturbed import again, undisturbed
from multipanda_py.exceptions import BenchError
from multipanda_py.state import Vector

_MOVING = 20.0  # for both robots to execute torques [s]
BARE = "bare pylibfranka"


def wired(
    seconds: float, folder: Path, say: Callable[[str], None]
) -> tuple[dict[str, Any], Samples]:
    """Run the node on two robots under each condition, then bare loops.

    Args:
        seconds: Of each condition.
        folder: For files.
        say: Told of progress.

    Returns:
        Figures by condition and arm, those of the bare loops among them; and what is drawn, by
        condition: ``left``, ``right`` from state to torque, ``to left``, ``to right`` from the
        loop to the robot [us].
    """
    figures: dict[str, Any] = {}
    samples: Samples = {}
    with BenchRobots() as robots:
        try:
            _conditions(robots, seconds, folder, say, figures, samples)
        except BenchError as error:  # what was measured before stays
            for condition in CONDITIONS:
                figures.setdefault(condition, {"trouble": f"{error}"})
        say(f"measuring {BARE}")
        try:
            answers = again(lambda: robots.bare(seconds))
        except BenchError as error:
            figures[BARE] = {"trouble": f"{error}"}
            return figures, samples
        figures[BARE] = {arm: _answered(found) for arm, found in answers.items()}
        samples[BARE] = {arm: _latency(found) for arm, found in answers.items()}
    return figures, samples


def _conditions(
    robots: BenchRobots,
    seconds: float,
    folder: Path,
    say: Callable[[str], None],
    figures: dict[str, Any],
    samples: Samples,
) -> None:
    data = all_conditions(robots.arms(), f"bench_fci_{os.getpid()}")
    with (
        BenchNode(data, folder, ros_environment()) as node,
        node.under_each(CONDITIONS, folder / "sent.npy") as each,
    ):
        for condition, user in each:
            say(f"measuring {condition} on simulated FCI robots")
            try:
                found = _measure(node, robots, condition, [*node.pids, user.pid], seconds)
            except BenchError as error:  # a machine that is too slow for robots
                figures[condition] = {"trouble": f"{error}"}
                continue
            figures[condition], samples[condition] = _figures(*found)


def _measure(
    node: BenchNode, robots: BenchRobots, condition: str, pids: list[int], seconds: float
) -> tuple[CycleTimes, dict[str, Answers], list[dict[str, Any]]]:
    """Watch loop and robots at the same time."""

    def both() -> tuple[list[CycleTimes], tuple[dict[str, Answers], list[dict[str, Any]]]]:
        _wait_for(robots)
        meter = UsageMeter(pids)
        robots.begin(seconds)
        timing = watch(node.rows, seconds)
        usage = [asdict(one) for one in meter.read()]
        return [timing], (robots.answers(), usage)

    (timing,), (answers, usage) = undisturbed({node: instances_of(condition)}, both)
    return timing, answers, usage


def _figures(
    timing: CycleTimes, answers: dict[str, Answers], usage: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Vector]]:
    figures: dict[str, Any] = {"processes": usage, "not_seen": timing.dropped}
    drawn: dict[str, Vector] = {}
    for k, (arm, found) in enumerate(answers.items()):
        written, tau = _written(timing, k)
        _, delays = stamped_delays(written, tau, found.arrived, found.tau)
        correlated = correlated_delay(written, tau, found.arrived, found.tau)
        figures[arm] = {
            **_answered(found),
            "loop_to_robot_us": summary(delays * 1e6),
            "loop_to_robot_matched": len(delays),
            "cross_correlation_us": None if correlated is None else correlated * 1e6,
        }
        drawn |= {arm: _latency(found), f"to {arm}": delays * 1e6}
    return figures, drawn


def _wait_for(robots: BenchRobots) -> None:
    deadline = time.monotonic() + _MOVING
    while not robots.are_moving():
        if time.monotonic() > deadline:
            raise BenchError(f"the robots of {', '.join(ARMS)} did not move in {_MOVING:g} s")
        time.sleep(0.05)


def _written(timing: CycleTimes, arm: int) -> tuple[Vector, Vector]:
    """Return when the loop has written the commands of an arm [s], and which."""
    fresh = timing.sensed[:, arm] == timing.wake
    written = (timing.wake + timing.control)[fresh] * 1e-9
    return written, timing.tau[fresh, arm]


def _latency(found: Answers) -> Vector:
    latency: Vector = (found.arrived - found.sent) * 1e6
    return latency


def _answered(found: Answers) -> dict[str, Any]:
    return {
        "state_to_torque_us": summary(_latency(found)),
        "cycles": found.cycles,
        "lost": found.lost,
        "lost_of_10000": 1e4 * found.lost / max(found.cycles, 1),
        "longest_run": found.longest_run,
    }
