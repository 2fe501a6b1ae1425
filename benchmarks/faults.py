# SPDX-License-Identifier: Apache-2.0
"""Effect of each fault of one real arm on the other arm, with two simulated robots in real time.

`right` moves to another configuration and back, first without a fault. When it moves there again,
the fault happens on `left`, which carries a load. `left` recovers while `right` moves back. The
robots count torques, and the loop timestamps its messages. All faults take about a minute.

    .venv/bin/python benchmarks/faults.py --json faults.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from parts.fault_rig import LAW, ROBOTS, Rig, Row, left_behind, make_cell, rig_of, robots, wait
from processes import descendants, runs_module, shared_memory

from multipanda_py.exceptions import LoopError

MOVE = np.array([0.3, 0.2, -0.2, 0.3, 0.2, 0.3, 0.4])  # motion of right's joints [rad]
STOP = 0.05  # duration of a SIGSTOP [s]
ATTEMPTS = 3


def fault_of_left(
    fault: str, strike: Callable[[Rig], None], undo: Callable[[Rig], None] = lambda rig: None
) -> Callable[[], Row]:
    """Return a function that measures a fault of the left arm."""

    def measure() -> Row:
        with rig_of(fault) as rig:
            home = rig.cell.state("right").q.copy()
            rig.row.undisturbed_mrad = max(rig.go(home + MOVE), rig.go(home)) * 1e3
            for arm in ROBOTS:
                rig.admin(arm, "reset_stats")
            error = rig.go(home + MOVE, lambda: strike(rig))
            rig.hear()
            undo(rig)
            error = max(error, rig.go(home, lambda: rig.recover("left")))
            rig.row.error_mrad = error * 1e3
            rig.count()
            if rig.cell.state("left").owner != "left/hold":
                raise RuntimeError("left does not hold after its recovery")
            rig.cell.switch([LAW], strictness="force_auto")
        return rig.row

    return measure


def loop_stopped() -> Row:
    """Measure a stopped loop: both arms stop and recover."""
    with rig_of("loop SIGSTOP 50 ms") as rig:
        rig.struck_ns = time.monotonic_ns()
        os.kill(rig.cell.loop_pid, signal.SIGSTOP)
        time.sleep(STOP)
        os.kill(rig.cell.loop_pid, signal.SIGCONT)
        rig.hear()
        wait(lambda: all(rig.cell.state(arm).fault for arm in ROBOTS), "both faults")
        rig.count()
        rig.recover(*ROBOTS)
    return rig.row


def loop_killed() -> Row:
    """Measure the kill of the loop."""
    with contextlib.ExitStack() as stack:
        rig = stack.enter_context(rig_of("loop SIGKILL"))
        memory = shared_memory()
        pids = descendants(rig.cell.loop_pid)
        rig.struck_ns = time.monotonic_ns()
        os.kill(rig.cell.loop_pid, signal.SIGKILL)
        while not rig.row.message:
            try:
                rig.cell.check()
            except LoopError as error:
                rig.row.message = str(error)
        rig.row.message_ms = (time.monotonic_ns() - rig.struck_ns) * 1e-6
        wait(lambda: not any(map(rig.moves, ROBOTS)), "rest")
        rig.count()
        left_behind(rig.row, pids, memory)
    return rig.row


def owner_killed() -> Row:
    """Measure the kill of the process that owns the cell, such as a ROS node."""
    memory = shared_memory()
    with robots() as sim:
        rig = Rig(sim, "ROS process SIGKILL")
        command = [sys.executable, __file__, "--own", f"faults_{os.getpid()}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as owner:
            if owner.stdout is None or owner.stderr is None:
                raise RuntimeError("no pipes")
            owner.stdout.readline()  # waits until the cell runs
            rig.ready()
            pids = descendants(owner.pid)
            rig.struck_ns = time.monotonic_ns()
            owner.kill()
            while "owner has ended" not in rig.row.message:
                rig.row.message = owner.stderr.readline().decode().strip()
            rig.row.message_ms = (time.monotonic_ns() - rig.struck_ns) * 1e-6
        wait(lambda: not any(map(rig.moves, ROBOTS)), "rest")
        rig.count()
        left_behind(rig.row, pids, memory)
    return rig.row


def own(name: str) -> None:
    """Own a cell until this process is killed."""
    with make_cell(name):
        print("running", flush=True)
        signal.pause()


def break_controllet(rig: Rig, fault: str) -> None:
    """Make the controllet of left fail."""
    rig.cell.switch(["odd"], strictness="force_auto")
    rig.struck_ns = time.monotonic_ns()
    rig.cell.set_parameters("odd", {"fault": fault})


def driver(rig: Rig) -> int:
    """Return the process id of left's driver, which the loop starts first."""
    found = descendants(rig.cell.loop_pid)
    return min(pid for pid in found if runs_module(pid, "multipanda_py.hardware.franka.driver"))


def stop_driver(rig: Rig) -> None:
    """Stop left's driver for ``STOP`` seconds."""
    pid = driver(rig)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(STOP)
    os.kill(pid, signal.SIGCONT)


FAULTS: dict[str, Callable[[], Row]] = {
    "reflex": fault_of_left("reflex", lambda r: r.admin("left", "reflex")),
    "user_stop": fault_of_left(
        "user stop", lambda r: r.admin("left", "user_stop"), lambda r: r.admin("left", "release")
    ),
    "communication": fault_of_left(
        "20 commands lost (`communication_constraints_violation`)",
        lambda r: r.admin("left", "drop", commands=20),
    ),
    "dead_tcp": fault_of_left("dead TCP", lambda r: r.admin("left", "kill_tcp")),
    "dead_udp": fault_of_left(
        "dead UDP", lambda r: r.admin("left", "kill_udp"), lambda r: r.admin("left", "heal")
    ),
    "driver_killed": fault_of_left("driver SIGKILL", lambda r: os.kill(driver(r), signal.SIGKILL)),
    "driver_stopped": fault_of_left("driver SIGSTOP 50 ms", stop_driver),
    "loop_stopped": loop_stopped,
    "loop_killed": loop_killed,
    "ros_killed": owner_killed,
    "nan": fault_of_left("NaN from a controllet", lambda r: break_controllet(r, "nan")),
    "exception": fault_of_left(
        "exception in a controllet", lambda r: break_controllet(r, "raise")
    ),
}


def measure(one: Callable[[], Row]) -> Row:
    """Measure a fault; repeat it if delays of the machine spoil the result."""
    for _ in range(ATTEMPTS - 1):
        try:
            return one()
        except (AssertionError, RuntimeError) as error:
            print(f"    repeated: {error}", file=sys.stderr, flush=True)
    return one()


def line(row: Row) -> str:
    """Return a row of the table in Markdown."""

    def number(value: float | None, digits: int = 0) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    errors = "both stop"
    if row.error_mrad is not None:
        errors = f"{number(row.error_mrad, 2)} ({number(row.undisturbed_mrad, 2)})"
    cells = [row.fault, errors, number(row.repeat_ms, 1), number(row.rate_nm_per_ms, 3),
             number(row.message_ms, 1), number(row.recovery_ms),
             f"{row.orphans} / {row.leaks}"]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def print_table(rows: Sequence[Row]) -> None:
    """Print the table in Markdown."""
    print("| fault on `left` | max tracking error of `right` (without the fault) [mrad] | "
          "longest repeat of a torque [ms] | max torque rate [Nm/ms] | until the message [ms] "
          "| recovery [ms] | orphans / leaks |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        print(line(row))


def main() -> int:
    """Measure the faults and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write all results to this file")
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS), metavar="FAULT",
                        help=f"faults to measure: {', '.join(FAULTS)}")  # fmt: skip
    parser.add_argument("--own", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.own:
        own(options.own)
    rows = []
    for number, name in enumerate(options.only, 1):
        print(f"{number} of {len(options.only)}: {name} ...", file=sys.stderr, flush=True)
        rows.append(measure(FAULTS[name]))
        print(f"    {rows[-1].message}", file=sys.stderr, flush=True)
    print_table(rows)
    if options.json:
        text = json.dumps([asdict(row) for row in rows], indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
