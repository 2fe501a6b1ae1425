# SPDX-License-Identifier: Apache-2.0
"""Delays of states and torques between the node and simulated FCI robots."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.apps.bench.conditions import (
    ARM_POSITIONS,
    CONDITIONS,
    Data,
    all_conditions,
    instances_of,
    two_arms,
)
from multipanda_py.apps.bench.node import BenchNode, ros_environment
from multipanda_py.apps.bench.paced import Samples
from multipanda_py.apps.bench.processes import Child, UsageMeter
from multipanda_py.apps.bench.records import (
    CycleTimes,
    collect_cycle_times,
    measure_with_retry,
    measure_without_holds,
    summary,
)
from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.realtime.system.scheduling import SYS_NICE, has_capability, other_cpus
from multipanda_py.simulation.fci.process import FciSim
from multipanda_py.state import Matrix, Vector

TIME_STEP = 10e-6
"""Time grid of the cross-correlation [s]."""
MAX_DELAY = 5e-3
"""Maximum delay of the cross-correlation, in both directions [s]."""

Signals = NDArray[np.float64]


def correlated_delay(t_from: Vector, x_from: Signals, t_to: Vector, x_to: Signals) -> float | None:
    r"""Estimate the delay between two recordings of k signals by cross-correlation.

    As in the multipanda_ros2 paper, the estimate is

    .. math:: \hat T = \arg\max_T \sum_j \int \dot x_{from,j}(t)\, \dot x_{to,j}(t + T)\, dt.

    Args:
        t_from: Times of the first recording, (n,) [s], increasing.
        x_from: Values of the first recording, (n, k).
        t_to: Times of the second recording, (m,) [s].
        x_to: Values of the second recording, (m, k).

    Returns:
        Delay of the second recording [s]; None if the signals change too little for a maximum
            within ``MAX_DELAY``.
    """
    start, end = max(t_from[0], t_to[0]), min(t_from[-1], t_to[-1])
    times = np.arange(start, end, TIME_STEP)
    size = 1 << (2 * len(times) - 1).bit_length()
    total = np.zeros(size)
    for k in range(x_from.shape[1]):
        a = np.fft.rfft(np.diff(np.interp(times, t_from, x_from[:, k])), size)
        b = np.fft.rfft(np.diff(np.interp(times, t_to, x_to[:, k])), size)
        total += np.fft.irfft(np.conj(a) * b, size)
    max_value = round(MAX_DELAY / TIME_STEP)
    # Correlation at delays from -MAX_DELAY to MAX_DELAY, in steps of TIME_STEP.
    window = np.concatenate([total[-max_value:], total[: max_value + 1]])
    peak = int(window.argmax())
    if not 0 < peak < 2 * max_value:
        return None
    # A parabola through three points refines the maximum.
    left, middle, right = window[peak - 1 : peak + 2].tolist()
    bend = left - 2.0 * middle + right
    between = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
    return float((peak - max_value + between) * TIME_STEP)


def stamped_delays(
    t_from: Vector, x_from: Signals, t_to: Vector, x_to: Signals
) -> tuple[Vector, Vector]:
    """Return the delays of torque commands from the loop to a robot.

    Commands that differ from the newest one written before their arrival are left out.

    Args:
        t_from: Times at which the loop wrote commands, (n,) [s], increasing.
        x_from: Written torques of the k joints, (n, k).
        t_to: Arrival times of commands at the robot, (m,) [s].
        x_to: Received torques, (m, k).

    Returns:
        Arrival times and delays of the other commands [s].
    """
    last = np.searchsorted(t_from, t_to, side="right") - 1
    known = last >= 0
    known[known] = (x_from[last[known]] == x_to[known]).all(axis=1)
    return t_to[known], t_to[known] - t_from[last[known]]


CLOCK_DRIFT = 300.0
"""Clock drift of the second robot, so that packets arrive in every order [ppm]."""
PRIORITY = 50
"""Real-time priority of the robot processes."""
CLIENT_PRIORITY = 85
"""Real-time priority of the bare loops."""
_MIN_CORES = 4  # Minimum number of cores at which robots do not run on the loop's core.
# Maximum number of logged commands per request. Larger responses would block the robot.
_LOG_CHUNK = 200
# Pause between requests, which leaves processor time for the node [s].
_LOG_PAUSE = 0.005


def may_have_priority() -> bool:
    """Return True if this user may set real-time priorities."""
    _, hard = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if has_capability(SYS_NICE):
        return True
    return hard == resource.RLIM_INFINITY or hard >= CLIENT_PRIORITY


@dataclass(frozen=True)
class ReceivedTorques:
    """Torque packets that a robot received.

    Attributes:
        sent: Time at which each state was sent, CLOCK_MONOTONIC, (n,) [s].
        arrived: Arrival time of the torque for this state, (n,) [s].
        tau: Received torques, (n, 7) [Nm].
        lost: Number of states for which no torque arrived in time.
        cycles: Number of states sent during motions.
        longest_run: Maximum number of successive lost states.
    """

    sent: Vector
    arrived: Vector
    tau: Matrix
    lost: int
    cycles: int
    longest_run: int


class BenchRobots(Closeable):
    """Two simulated robots in separate processes, each with its own loopback address."""

    def __init__(self) -> None:
        number = os.getpid()
        self.addresses = [f"127.{64 + number % 64}.{number // 64 % 256}.{k}" for k in (1, 2)]
        priority = PRIORITY if may_have_priority() else 0
        self._sims = [
            FciSim([ip], ppm=[drift], priority=priority)
            for ip, drift in zip(self.addresses, (0.0, CLOCK_DRIFT))
        ]
        cores = os.sched_getaffinity(0)
        # The robots do not run on the loop's core, if enough cores remain for the node.
        if len(cores) >= _MIN_CORES:
            os.sched_setaffinity(0, other_cpus(RealtimeConfig()))
        try:
            for sim in self._sims:
                sim.start()
        except BaseException:
            self.close()
            raise
        finally:
            os.sched_setaffinity(0, cores)

    def arms(self) -> dict[str, Data]:
        """Return the arm sections of a cell file for these robots."""
        arms = two_arms(backend="franka", gripper=True)
        for arm, ip in zip(arms.values(), self.addresses):
            arm["robot_ip"] = ip
        return arms

    def _ask(self, which: int, command: str, **arguments: Any) -> dict[str, Any]:
        return self._sims[which].admin(self.addresses[which], command, **arguments)

    def are_moving(self) -> bool:
        """Return True if both robots execute torques."""
        return all(self._ask(k, "stats")["mode"] == "move" for k in range(len(ARM_POSITIONS)))

    def start_recording(self, seconds: float) -> None:
        """Let both robots count and log the torque packets of the next ``seconds`` [s]."""
        for k in range(len(ARM_POSITIONS)):
            self._ask(k, "keep", commands=round(1100 * seconds) + 1000)
            self._ask(k, "reset_stats")

    def answers(self) -> dict[str, ReceivedTorques]:
        """Return the torque packets since :meth:`start_recording`, by arm.

        Raises:
            BenchError: A robot received no packet.
        """
        # The robots continue to count while their logs are read, so the counters are read first.
        counted = [self._ask(k, "stats") for k in range(len(ARM_POSITIONS))]
        answers = {}
        for k, arm in enumerate(ARM_POSITIONS):
            log: list[dict[str, Any]] = []
            while part := self._ask(k, "log", skip=len(log), max_count=_LOG_CHUNK)["commands"]:
                log += part
                time.sleep(_LOG_PAUSE)
            if not log:
                raise BenchError(f"{arm}: the robot received no torques. Counters: {counted[k]}")
            answers[arm] = ReceivedTorques(
                np.array([entry["sent_ns"] for entry in log]) * 1e-9,
                np.array([entry["arrived_ns"] for entry in log]) * 1e-9,
                np.array([entry["tau"] for entry in log]),
                counted[k]["lost"], counted[k]["active_cycles"], counted[k]["longest_run"],
            )  # fmt: skip
        return answers

    def run_bare_loops(self, seconds: float) -> dict[str, ReceivedTorques]:
        """Run :mod:`.bare_loop` for each robot, and return the received packets by arm."""
        priority = CLIENT_PRIORITY if may_have_priority() else 0
        self.start_recording(seconds)
        cycles = str(round(1000 * seconds))
        loops = [
            Child("multipanda_py.apps.bench.bare_loop", ip, cycles, str(priority))
            for ip in self.addresses
        ]
        try:
            for loop in loops:
                loop.wait_until_ready(30.0 + 10.0 * seconds)
            return self.answers()
        finally:
            for loop in loops:
                loop.close()

    def close(self) -> None:
        for sim in self._sims:
            sim.close()


_MOTION_TIMEOUT = 20.0  # Maximum wait until both robots move [s].
BARE = "bare pylibfranka"


def wired(
    seconds: float, folder: Path, log: Callable[[str], None]
) -> tuple[dict[str, Any], Samples]:
    """Measure delays of the node with two robots, and of loops that only send zero torques.

    Args:
        seconds: Duration of each condition [s].
        folder: Folder for temporary files.
        log: Callback for progress messages.

    Returns:
        Data for the report by condition and arm, and delays for the plots by condition and key
            [us]. The keys ``left`` and ``right`` are delays from state to torque, ``to left`` and
            ``to right`` from the loop to the robot.
    """
    figures: dict[str, Any] = {}
    samples: Samples = {}
    with BenchRobots() as robots:
        try:
            _conditions(robots, seconds, folder, log, figures, samples)
        except BenchError as error:  # Conditions measured so far keep their figures.
            for condition in CONDITIONS:
                figures.setdefault(condition, {"trouble": f"{error}"})
        log(f"measuring {BARE}")
        try:
            answers = measure_with_retry(lambda: robots.run_bare_loops(seconds))
        except BenchError as error:
            figures[BARE] = {"trouble": f"{error}"}
            return figures, samples
        figures[BARE] = {arm: _answered(result) for arm, result in answers.items()}
        samples[BARE] = {arm: _latency(result) for arm, result in answers.items()}
    return figures, samples


def _conditions(
    robots: BenchRobots,
    seconds: float,
    folder: Path,
    log: Callable[[str], None],
    figures: dict[str, Any],
    samples: Samples,
) -> None:
    data = all_conditions(robots.arms(), f"bench_fci_{os.getpid()}")
    with (
        BenchNode(data, folder, ros_environment()) as node,
        node.each_condition(CONDITIONS, folder / "sent.npy") as each,
    ):
        for condition, generator in each:
            log(f"measuring {condition} on simulated FCI robots")
            try:
                result = _measure_condition(
                    node, robots, condition, [*node.pids, generator.pid], seconds
                )
            except BenchError as error:  # The machine may be too slow for the robots.
                figures[condition] = {"trouble": f"{error}"}
                continue
            figures[condition], samples[condition] = _figures(*result)


def _measure_condition(
    node: BenchNode, robots: BenchRobots, condition: str, pids: list[int], seconds: float
) -> tuple[CycleTimes, dict[str, ReceivedTorques], list[dict[str, Any]]]:
    def both() -> tuple[list[CycleTimes], tuple[dict[str, ReceivedTorques], list[dict[str, Any]]]]:
        _wait_for(robots)
        meter = UsageMeter(pids)
        robots.start_recording(seconds)
        timing = collect_cycle_times(node.rows, seconds)
        usage = [asdict(one) for one in meter.read()]
        return [timing], (robots.answers(), usage)

    (timing,), (answers, usage) = measure_without_holds({node: instances_of(condition)}, both)
    return timing, answers, usage


def _figures(
    timing: CycleTimes, answers: dict[str, ReceivedTorques], usage: list[dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Vector]]:
    figures: dict[str, Any] = {"processes": usage, "not_seen": timing.dropped}
    drawn: dict[str, Vector] = {}
    for k, (arm, result) in enumerate(answers.items()):
        written, tau = _written_torques(timing, k)
        _, delays = stamped_delays(written, tau, result.arrived, result.tau)
        correlated = correlated_delay(written, tau, result.arrived, result.tau)
        figures[arm] = {
            **_answered(result),
            "loop_to_robot_us": summary(delays * 1e6),
            "loop_to_robot_matched": len(delays),
            "cross_correlation_us": None if correlated is None else correlated * 1e6,
        }
        drawn |= {arm: _latency(result), f"to {arm}": delays * 1e6}
    return figures, drawn


def _wait_for(robots: BenchRobots) -> None:
    deadline = time.monotonic() + _MOTION_TIMEOUT
    while not robots.are_moving():
        if time.monotonic() > deadline:
            raise BenchError(
                f"{', '.join(ARM_POSITIONS)}: the robots did not move within {_MOTION_TIMEOUT:g} s"
            )
        time.sleep(0.05)


def _written_torques(timing: CycleTimes, arm: int) -> tuple[Vector, Vector]:
    """Return times, (n,) [s], and torques, (n, 7) [Nm], of commands in cycles with a new state."""
    fresh = timing.sensed[:, arm] == timing.wake
    written = (timing.wake + timing.control)[fresh] * 1e-9
    return written, timing.tau[fresh, arm]


def _latency(result: ReceivedTorques) -> Vector:
    latency: Vector = (result.arrived - result.sent) * 1e6
    return latency


def _answered(result: ReceivedTorques) -> dict[str, Any]:
    return {
        "state_to_torque_us": summary(_latency(result)),
        "cycles": result.cycles,
        "lost": result.lost,
        "lost_of_10000": 1e4 * result.lost / max(result.cycles, 1),
        "longest_run": result.longest_run,
    }
