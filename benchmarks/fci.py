# SPDX-License-Identifier: Apache-2.0
"""Measure the way from an arm's state packet to its torque, on two simulated robots.

The cell with its drivers and its woken loop, and beside it a bare pylibfranka loop per robot that
computes nothing. The robots, each in a process of its own, count losses and take the time from
sending a state to the arrival of its command at their socket, which the kernel notes. Their clocks
drift by 300 ppm, so that packets of the two arms meet in every order.

    .venv/bin/python benchmarks/fci.py --json fci.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from parts.options import count, duration

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.fci_sim import FciSim
from multipanda_py.machine.realtime import keep_cores_awake, other_cpus
from multipanda_py.testing import simple_cell

ROBOTS = ("127.0.77.1", "127.0.77.2")
DRIFT = 300.0  # of the second robot's clock [millionth]
BARE = """
import os, sys
import pylibfranka as f
robot = f.Robot(sys.argv[1], f.RealtimeConfig.kIgnore)
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(85)) if sys.argv[3] == "1" else \\
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
control = robot.start_torque_control()
for _ in range(int(sys.argv[2])):
    control.readOnce()
    control.writeOnce(f.Torques([0.0] * 7))
os._exit(0)
"""
EACH = {
    "law_left": {"type": "cartesian_impedance", "arms": ["left"]},
    "law_right": {"type": "cartesian_impedance", "arms": ["right"]},
}
PAIR = {"pair": {"type": "coupled_impedance", "arms": ["left", "right"]}}
"""Of a coupled law both arms' torques are computed on the first arm's packet."""


class Robots:
    """Two simulated robots, together in lockstep or each by its own clock."""

    def __init__(self, lockstep: bool, realtime: bool) -> None:
        priority = 50 if realtime else 0
        self._sims = (
            [FciSim(ROBOTS, together=True)]
            if lockstep
            else [
                FciSim([ip], ppm=[drift], priority=priority)
                for ip, drift in zip(ROBOTS, (0.0, DRIFT))
            ]
        )

    def __enter__(self) -> Robots:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, other_cpus(RealtimeConfig()))  # robots leave the loop's core alone
        for sim in self._sims:
            sim.start()
        os.sched_setaffinity(0, cores)
        return self

    def __exit__(self, *_: object) -> None:
        for sim in self._sims:
            sim.close()

    def ask(self, command: str) -> list[dict[str, Any]]:
        """Return what each robot answers to a command."""
        return [self._sims[0].admin(ip, command) for ip in ROBOTS]


def wait(condition: Any, what: str, timeout: float = 30.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def cell_run(
    seconds: float, realtime: bool, laws: dict[str, Any], *, lockstep: bool = False
) -> dict[str, Any]:
    """Run a cell for some robot time and return what each robot counted."""
    options = {"answer_budget": 0.4 if lockstep else 5e-4, "priority": 85 if realtime else 0}
    arms = {
        name: {"backend": "franka", "robot_ip": ip, "hand": False, "position": [0.0, y, 0.0],
               "franka": options}
        for name, ip, y in (("left", ROBOTS[0], 0.3), ("right", ROBOTS[1], -0.3))
    }  # fmt: skip
    with Robots(lockstep, realtime) as robots:
        cell = simple_cell(
            arms, laws, list(laws), placement="process", name=f"fci_benchmark_{os.getpid()}",
            realtime={"priority": 80 if realtime else 0},
        )  # fmt: skip
        with cell:
            wait(lambda: all(s["mode"] == "move" for s in robots.ask("stats")), "motion")
            robots.ask("reset_stats")
            begin, enough = time.monotonic(), seconds * 1e3
            wait(lambda: all(s["active_cycles"] >= enough for s in robots.ask("stats")),
                 "cycles", 60.0 + 10.0 * seconds)  # fmt: skip
            return {"wall_s": time.monotonic() - begin, "robots": robots.ask("stats")}


def bare_run(seconds: float, realtime: bool) -> dict[str, Any]:
    """Serve each robot from a bare process and return what each robot counted."""
    with Robots(False, realtime) as robots:
        arguments = str(round(seconds * 1e3)), str(int(realtime))
        loops = [subprocess.Popen([sys.executable, "-c", BARE, ip, *arguments]) for ip in ROBOTS]
        for loop in loops:
            loop.wait(60.0 + 10.0 * seconds)
        return {"robots": robots.ask("stats")}


def row(title: str, robots: list[dict[str, Any]]) -> str:
    """Return a line of the table for a run."""
    lost = " / ".join(f"{1e4 * r['lost'] / max(r['active_cycles'], 1):.1f}" for r in robots)
    p50 = " / ".join(f"{r['latency_us']['50']:.0f}" for r in robots)
    p99 = " / ".join(f"{r['latency_us']['99']:.0f}" for r in robots)
    runs = " / ".join(str(r["longest_run"]) for r in robots)
    return f"| {title} | {p50} us | {p99} us | {lost} | {runs} |"


def main() -> int:
    """Run all parts and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument(
        "--seconds", type=duration, default=10.0, help="of robot time by the clock"
    )
    parser.add_argument("--lockstep", type=duration, default=60.0, help="seconds in lockstep")
    parser.add_argument("--rounds", type=count, default=1, help="of what has a clock")
    options = parser.parse_args()
    realtime = os.geteuid() == 0
    for refusal in keep_cores_awake() if realtime else ():
        sys.stderr.write(f"{refusal}\n")
    print("| two robots | state to torque, median | p99 | lost of 10 000 | most in a row |")
    print("|---|---|---|---|---|", flush=True)
    results: list[dict[str, Any]] = []

    def show(title: str, found: dict[str, Any]) -> None:
        results.append({"title": title, **found})
        print(row(title, found["robots"]), flush=True)

    for _ in range(options.rounds):
        show("cell, a law on each arm", cell_run(options.seconds, realtime, EACH))
        show("cell, one coupled law", cell_run(options.seconds, realtime, PAIR))
        show("bare pylibfranka, a process each", bare_run(options.seconds, realtime))
    if options.lockstep:
        found = cell_run(options.lockstep, False, PAIR, lockstep=True)
        show(f"cell, {options.lockstep:.0f} s in lockstep ({found['wall_s']:.0f} s)", found)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
