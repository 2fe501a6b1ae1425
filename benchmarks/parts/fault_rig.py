# SPDX-License-Identifier: Apache-2.0
"""Rig of benchmarks/faults.py: two simulated robots in real time and a cell that runs them."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.exceptions import LoopTimeout, RecoveryFailed
from multipanda_py.simulation.fci import FciSim
from multipanda_py.testing import simple_cell

TESTS = Path(__file__).resolve().parents[2] / "test"
sys.path += [str(TESTS / "helpers"), str(TESTS / "plugins")]  # The plugin fails on request.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [os.environ.get("PYTHONPATH"), str(TESTS / "plugins")])
)

from processes import descendants, is_running, shared_memory, wait_until  # noqa: E402

ROBOTS = {"left": "127.0.79.1", "right": "127.0.79.2"}
LAW, MOTION = "impedance", "trajectory"
LOAD = [0.0, 0.0, -8.0, 0.0, 0.0, 0.0]  # Wrench on the left arm [N, Nm].
REALTIME = os.geteuid() == 0
LATENESS = 5.0
"""Lateness of the states of a simulated robot that invalidates a measurement [ms]."""
RUNNING, DONE = 1.0, 2.0  # Reported states of a motion.


@dataclass
class Row:
    """Measurements of one fault, with None for those that do not apply."""

    fault: str
    error_mrad: float | None = None
    undisturbed_mrad: float | None = None
    repeat_ms: float = 0.0
    rate_nm_per_ms: float = 0.0
    message_ms: float | None = None
    message: str = ""
    recovery_ms: float | None = None
    orphans: int = 0
    leaks: int = 0


def make_cell(name: str) -> Cell:
    """Return a cell for both robots with the settings of real ones."""
    options = {"priority": 85 if REALTIME else 0}
    arms = {
        arm: {"backend": "franka", "robot_ip": ip, "gripper": True, "position": [0.0, y, 0.0],
              "franka": options}
        for (arm, ip), y in zip(ROBOTS.items(), (0.3, -0.3))
    }  # fmt: skip
    laws = {
        "impedance": {"type": "cartesian_impedance", "arms": ["left"]},
        "trajectory": {"type": "joint_trajectory", "arms": ["right"]},
        "odd": {"type": "misbehaving", "arms": ["left"]},
    }
    return simple_cell(
        arms, laws, [LAW, MOTION], placement="process", name=name,
        realtime={"priority": 80 if REALTIME else 0},
    )  # fmt: skip


def wait(condition: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    """Wait until a condition is true; raise AssertionError after the timeout [s]."""
    wait_until(condition, timeout, lambda: what, lambda: time.sleep(0.002))


class Rig:
    """Robots and a cell for the measurement of one fault."""

    def __init__(self, sim: FciSim, fault: str) -> None:
        self.sim, self.row = sim, Row(fault)
        self.cell: Cell
        self.struck_ns = 0

    def admin(self, arm: str, command: str, **arguments: Any) -> dict[str, Any]:
        """Send a command to the simulated robot of an arm; return its answer."""
        return self.sim.admin(ROBOTS[arm], command, **arguments)

    def moves(self, arm: str) -> bool:
        """Return True if a robot executes torques."""
        return bool(self.admin(arm, "stats")["mode"] == "move")

    def ready(self) -> None:
        """Wait for torque control, load the left arm and reset the counters."""
        wait(lambda: all(map(self.moves, ROBOTS)), "torque control")
        self.admin("left", "push", wrench=LOAD)
        time.sleep(0.5)  # The estimate of the external wrench settles.
        for arm in ROBOTS:
            self.admin(arm, "reset_stats")

    def go(self, goal: np.ndarray, strike: Callable[[], None] | None = None) -> float:
        """Move the right arm to a joint goal.

        Args:
            goal: Joint configuration, (7,) [rad].
            strike: Function to call after 30 % of the motion, which causes the fault.

        Returns:
            Maximum tracking error [rad].
        """
        before = self.cell.report(MOTION)["motions"]
        self.cell.set_target("right", q=goal)
        wait(lambda: self.cell.report(MOTION)["motions"] > before, "start of the motion")
        if strike is not None:
            report = self.cell.report(MOTION)
            wait(
                lambda: self.cell.report(MOTION)["time [s]"] > 0.3 * report["duration [s]"],
                "30 % of the motion",
            )
            self.struck_ns = time.monotonic_ns()
            strike()
        wait(lambda: self.cell.report(MOTION)["state"] != RUNNING, "end of the motion")
        if self.cell.report(MOTION)["state"] != DONE:
            raise RuntimeError(f"right: the motion did not reach its goal: {self.cell.events()}")
        return self.cell.report(MOTION)["max error [rad]"]

    def hear(self, arm: str = "left") -> None:
        """Wait for the first event of an arm, and record its text and latency."""
        received: list[Any] = []

        def listen() -> bool:
            received.extend(event for event in self.cell.events() if event.arm == arm)
            return bool(received)

        wait(listen, "message")
        self.row.message_ms = (received[0].time_ns - self.struck_ns) * 1e-6
        self.row.message = received[0].text

    def count(self) -> None:
        """Record the counters of the robots.

        Raises:
            RuntimeError: If a simulated robot was late, since the machine was stalled.
        """
        for arm in ROBOTS:
            stats = self.admin(arm, "stats")
            late = stats["lateness_us"].get("100", 0.0) * 1e-3
            if late > LATENESS:
                raise RuntimeError(f"the simulated robot of {arm} was late by {late:.0f} ms")
            self.row.repeat_ms = max(
                self.row.repeat_ms, stats["longest_repeat_ms"], float(stats["longest_run"])
            )
            self.row.rate_nm_per_ms = max(self.row.rate_nm_per_ms, stats["torque_rate_max"] * 1e-3)

    def recover(self, *arms: str) -> None:
        """Recover arms and record the duration."""
        begin = time.monotonic()

        for _ in range(3):  # A robot can report an earlier error to a new driver first.
            with contextlib.suppress(RecoveryFailed, LoopTimeout):
                self.cell.recover(arms, timeout=3.0)
                break
        else:
            raise AssertionError(f"{', '.join(arms)} did not recover")
        self.row.recovery_ms = (time.monotonic() - begin) * 1e3


def robots() -> FciSim:
    """Return the robots, half a cycle apart."""
    priority = 50 if REALTIME else 0
    return FciSim(list(ROBOTS.values()), phases=(0.0, 0.5), priority=priority)


@contextlib.contextmanager
def rig_of(fault: str) -> Iterator[Rig]:
    """Start robots and a cell; at the end record processes and shared memory that remain."""
    memory = shared_memory()
    with robots() as sim:
        rig = Rig(sim, fault)
        with make_cell(f"faults_{os.getpid()}") as rig.cell:
            rig.ready()
            yield rig
            pids = [rig.cell.loop_pid, *descendants(rig.cell.loop_pid)]
        left_behind(rig.row, pids, memory)


def left_behind(row: Row, pids: list[int], memory: set[str]) -> None:
    """Record the number of processes and shared-memory files that outlive the cell."""
    with contextlib.suppress(AssertionError):
        wait(lambda: not any(map(is_running, pids)), "end of all processes", 5.0)
    row.orphans = sum(map(is_running, pids))
    row.leaks = len(shared_memory() - memory)
