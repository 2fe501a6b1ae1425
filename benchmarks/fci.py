# SPDX-License-Identifier: Apache-2.0
"""Measure the way from an arm's state packet to its torque, on two simulated robots.

The cell with its drivers and its woken loop, and beside it a bare pylibfranka loop that serves
both robots in one thread; the robots count answers and losses.

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

from multipanda_py.fci_sim import FciSim
from multipanda_py.testing import simple_cell

ROBOTS = ("127.0.77.1", "127.0.77.2")
BARE = """
import os, sys
import pylibfranka as f
ips, cycles = sys.argv[1:3], int(sys.argv[3])
robots = [f.Robot(ip, f.RealtimeConfig.kIgnore) for ip in ips]
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(80)) if sys.argv[4] == "1" else \\
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
controls = [r.start_torque_control() for r in robots]
for _ in range(cycles):
    for c in controls:
        c.readOnce()
        c.writeOnce(f.Torques([0.0] * 7))
os._exit(0)
"""


def wait(condition: Any, what: str, timeout: float = 30.0) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.02)


def cell_run(seconds: float, realtime: bool, **sim: Any) -> dict[str, Any]:
    """Run a coupled cell for some robot time and return what each robot counted."""
    lockstep = bool(sim)
    options = {"answer_budget": 0.4 if lockstep else 5e-4, "priority": 85 if realtime else 0}
    arms = {
        name: {"backend": "franka", "robot_ip": ip, "hand": False, "position": [0.0, y, 0.0],
               "franka": options}
        for name, ip, y in (("left", ROBOTS[0], 0.3), ("right", ROBOTS[1], -0.3))
    }  # fmt: skip
    laws = {"pair": {"type": "cartesian_impedance", "arms": ["left", "right"]}}
    with FciSim(ROBOTS, phases=() if lockstep else (0.0, 0.5),
                priority=50 if realtime else 0, **sim) as robots:  # fmt: skip
        cell = simple_cell(
            arms, laws, ["pair"], placement="process", name=f"fci_benchmark_{os.getpid()}",
            realtime={"priority": 80 if realtime else 0},
        )  # fmt: skip
        with cell:

            def stats(ip: str) -> dict[str, Any]:
                return robots.admin(ip, "stats")

            wait(lambda: all(stats(ip)["mode"] == "move" for ip in ROBOTS), "motion")
            for ip in ROBOTS:
                robots.admin(ip, "reset_stats")
            begin = time.monotonic()
            wait(lambda: all(stats(ip)["active_cycles"] >= seconds * 1e3 for ip in ROBOTS),
                 "cycles", 60.0 + 10.0 * seconds)  # fmt: skip
            found = {"wall_s": time.monotonic() - begin, "robots": [stats(ip) for ip in ROBOTS]}
    return found


def bare_run(seconds: float, realtime: bool) -> list[dict[str, Any]]:
    """Serve both robots from one bare thread and return what each robot counted."""
    with FciSim(ROBOTS, phases=(0.0, 0.5), priority=50 if realtime else 0) as robots:
        subprocess.run(
            [sys.executable, "-c", BARE, *ROBOTS, str(round(seconds * 1e3)), str(int(realtime))],
            check=True, timeout=60.0 + 10.0 * seconds,
        )  # fmt: skip
        return [robots.admin(ip, "stats") for ip in ROBOTS]


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
    parser.add_argument("--seconds", type=float, default=10.0, help="of robot time, by the clock")
    parser.add_argument("--lockstep", type=float, default=60.0, help="seconds in lockstep")
    options = parser.parse_args()
    realtime = os.geteuid() == 0
    results = {
        "clocked": cell_run(options.seconds, realtime),
        "bare": bare_run(options.seconds, realtime),
        "lockstep": cell_run(options.lockstep, False, together=True),
    }
    print("| two robots | state to torque, median | p99 | lost of 10 000 | most in a row |")
    print("|---|---|---|---|---|")
    print(row("cell, by the clock", results["clocked"]["robots"]))
    print(row("bare pylibfranka loop, one thread", results["bare"]))
    wall = results["lockstep"]["wall_s"]
    print(row(f"cell, {options.lockstep:.0f} s in lockstep ({wall:.0f} s)",
              results["lockstep"]["robots"]))  # fmt: skip
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
