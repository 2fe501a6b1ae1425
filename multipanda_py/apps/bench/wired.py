# SPDX-License-Identifier: Apache-2.0
"""The whole node on simulated FCI robots: how long states and torques are under way."""

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
    ARMS,
    CONDITIONS,
    Data,
    all_conditions,
    instances_of,
    two_arms,
)
from multipanda_py.apps.bench.node import BenchNode, ros_environment
from multipanda_py.apps.bench.paced import Samples
from multipanda_py.apps.bench.processes import Child, UsageMeter
from multipanda_py.apps.bench.records import CycleTimes, again, summary, undisturbed, watch
from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.child_process import Closing
from multipanda_py.realtime.system.priority import SYS_NICE, has_capability, other_cpus
from multipanda_py.simulation.fci.process import FciSim
from multipanda_py.state import Matrix, Vector

STEP = 10e-6
"""Of the grid that signals are compared on [s]."""
LONGEST = 5e-3
"""Delay that is looked for, either way [s]."""

Signals = NDArray[np.float64]


def correlated_delay(t_from: Vector, x_from: Signals, t_to: Vector, x_to: Signals) -> float | None:
    r"""Return by how much one recording of signals is behind another [s].

    As in the multipanda_ros2 paper: both are interpolated linearly to common times, and

    .. math:: \hat T = \arg\max_T \sum_j \int \dot x_{from,j}(t)\, \dot x_{to,j}(t + T)\, dt

    Of their changes, for slow motions make the maximum of the signals themselves flat. Between
    points of the grid the maximum is that of a parabola.

    Args:
        t_from: Times of the first, (n,) [s], growing.
        x_from: Its values, (n, k).
        t_to: Times of the second, (m,) [s].
        x_to: Its values, (m, k).

    Returns:
        The delay, or None if there is no maximum within ``LONGEST``: nothing changes enough.
    """
    begin, end = max(t_from[0], t_to[0]), min(t_from[-1], t_to[-1])
    times = np.arange(begin, end, STEP)
    size = 1 << (2 * len(times) - 1).bit_length()
    total = np.zeros(size)
    for k in range(x_from.shape[1]):
        a = np.fft.rfft(np.diff(np.interp(times, t_from, x_from[:, k])), size)
        b = np.fft.rfft(np.diff(np.interp(times, t_to, x_to[:, k])), size)
        total += np.fft.irfft(np.conj(a) * b, size)
    most = round(LONGEST / STEP)
    window = np.concatenate([total[-most:], total[: most + 1]])  # lags -most to most
    peak = int(window.argmax())
    if not 0 < peak < 2 * most:
        return None
    left, middle, right = window[peak - 1 : peak + 2].tolist()
    bend = left - 2.0 * middle + right
    between = 0.5 * (left - right) / bend if bend < 0.0 else 0.0
    return float((peak - most + between) * STEP)


def stamped_delays(
    t_from: Vector, x_from: Signals, t_to: Vector, x_to: Signals
) -> tuple[Vector, Vector]:
    """Return the delay of each command that was written before it arrived.

    Args:
        t_from: When the loop has written commands, (n,), growing.
        x_from: The commands, (n, k).
        t_to: When commands arrived, (m,).
        x_to: What arrived, (m, k).

    Returns:
        When they arrived and how long it took, of those that are the same to the last bit.
    """
    last = np.searchsorted(t_from, t_to, side="right") - 1
    known = last >= 0
    known[known] = (x_from[last[known]] == x_to[known]).all(axis=1)
    return t_to[known], t_to[known] - t_from[last[known]]


DRIFT = 300.0
"""Of the second robot's clock, so that packets meet in every order [millionth]."""
PRIORITY = 50
"""Of the robots' processes: a robot keeps its time."""
CLIENT_PRIORITY = 85
"""Of what answers them."""
_ENOUGH = 4  # cores for robots that leave the loop's alone
_PART = 200  # commands of a log that are read in one piece: a robot sends them without waiting
_PAUSE = 0.005  # between two pieces: a robot's priority is above that of the node [s]


def may_have_priority() -> bool:
    """Return whether this user gets real-time priorities."""
    _, hard = resource.getrlimit(resource.RLIMIT_RTPRIO)
    if has_capability(SYS_NICE):
        return True
    return hard == resource.RLIM_INFINITY or hard >= CLIENT_PRIORITY


@dataclass(frozen=True)
class Answers:
    """What a robot was answered with.

    Attributes:
        sent: When each state was sent, CLOCK_MONOTONIC, (n,) [s].
        arrived: When its torque arrived, (n,) [s].
        tau: The torques, (n, 7) [Nm].
        lost: States without an answer in time.
        cycles: All states of motions.
        longest_run: Lost in a row at most.
    """

    sent: Vector
    arrived: Vector
    tau: Matrix
    lost: int
    cycles: int
    longest_run: int


class BenchRobots(Closing):
    """Two robots, a process each, on loopback addresses of this run's own."""

    def __init__(self) -> None:
        number = os.getpid()
        self.addresses = [f"127.{64 + number % 64}.{number // 64 % 256}.{k}" for k in (1, 2)]
        priority = PRIORITY if may_have_priority() else 0
        self._sims = [
            FciSim([ip], ppm=[drift], priority=priority)
            for ip, drift in zip(self.addresses, (0.0, DRIFT))
        ]
        cores = os.sched_getaffinity(0)
        if len(cores) >= _ENOUGH:  # else they would leave the node no time
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
        """Return the sections of arms on these robots."""
        arms = two_arms(backend="franka", hand=True)
        for arm, ip in zip(arms.values(), self.addresses):
            arm["robot_ip"] = ip
        return arms

    def _ask(self, which: int, command: str, **arguments: Any) -> dict[str, Any]:
        return self._sims[which].admin(self.addresses[which], command, **arguments)

    def are_moving(self) -> bool:
        """Return whether both execute torques."""
        return all(self._ask(k, "stats")["mode"] == "move" for k in range(len(ARMS)))

    def begin(self, seconds: float) -> None:
        """Count and log from here on, for up to some time [s]."""
        for k in range(len(ARMS)):
            self._ask(k, "keep", commands=round(1100 * seconds) + 1000)
            self._ask(k, "reset_stats")

    def answers(self) -> dict[str, Answers]:
        """Return what the robots were answered with since, by arm.

        Raises:
            BenchError: If there was nothing.
        """
        counted = [self._ask(k, "stats") for k in range(len(ARMS))]  # all before the logs
        found = {}
        for k, arm in enumerate(ARMS):
            log: list[dict[str, Any]] = []
            while part := self._ask(k, "log", skip=len(log), most=_PART)["commands"]:
                log += part
                time.sleep(_PAUSE)
            if not log:
                raise BenchError(f"the robot of {arm} was not answered: {counted[k]}")
            found[arm] = Answers(
                np.array([entry["sent_ns"] for entry in log]) * 1e-9,
                np.array([entry["arrived_ns"] for entry in log]) * 1e-9,
                np.array([entry["tau"] for entry in log]),
                counted[k]["lost"], counted[k]["active_cycles"], counted[k]["longest_run"],
            )  # fmt: skip
        return found

    def bare(self, seconds: float) -> dict[str, Answers]:
        """Have each robot served by a loop that computes nothing; return its answers, by arm."""
        priority = CLIENT_PRIORITY if may_have_priority() else 0
        self.begin(seconds)
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
        """End the robots."""
        for sim in self._sims:
            sim.close()


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
