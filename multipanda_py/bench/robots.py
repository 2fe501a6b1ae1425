# SPDX-License-Identifier: Apache-2.0
"""Two simulated FCI robots by the clock, and bare loops that serve them."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from multipanda_py.bench.child import Child
from multipanda_py.bench.conditions import ARMS, Data, two_arms
from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.exceptions import BenchError
from multipanda_py.fci_sim.process import FciSim
from multipanda_py.machine.closing import Closing
from multipanda_py.machine.realtime import other_cpus
from multipanda_py.machine.rights import SYS_NICE, has_capability
from multipanda_py.state import Matrix, Vector

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
            Child("multipanda_py.bench.bare_loop", ip, cycles, str(priority))
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
