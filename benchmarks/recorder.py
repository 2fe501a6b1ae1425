# SPDX-License-Identifier: Apache-2.0
"""What recorders and twins beside a loop cost it, in pairs: one window with, one without.

A paced cell of two simulated arms runs all the time. What follows it is stopped (SIGSTOP) and let
go on in turn, window by window, in an order that changes from pair to pair: so whatever else the
machine does hits both. Of every window there is the processor time of the loop's process per
cycle, by the scheduler's clock, and the median time that its cycles took.

    .venv/bin/python benchmarks/recorder.py                  # about three minutes
    .venv/bin/python benchmarks/recorder.py --pairs 5 --window 1 --only monitor
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from parts.options import count, duration

from multipanda_py import Cell
from multipanda_py.apps.bench.processes import processor_time
from multipanda_py.config.cell_file import CellConfig

CELL = Path(__file__).resolve().parents[1] / "config" / "dual_sim.yaml"
SETTLE = 0.3
"""After a stop or a start, before a window begins [s]."""
LONGEST = 1.5
"""Of a window: two without a follower come one after the other, and it is to lose no row of the
four seconds that the ring has [s]."""

HEAD = (
    "| follows | processor time of the loop a cycle [us] | with / without, median of pairs "
    "(middle half) | cycle [us] | with / without | periods missed | takes of a core |"
)


@dataclass(frozen=True)
class Window:
    """One window.

    Attributes:
        cpu: Processor time of the loop's process per cycle [us].
        compute: Median time of a cycle [us].
        missed: Periods that it missed.
    """

    cpu: float
    compute: float
    missed: int


def cpu_ns(pid: int) -> int:
    """Return the processor time of all threads of a process [ns]."""
    return sum(
        int((task / "schedstat").read_text().split()[0])
        for task in Path(f"/proc/{pid}/task").iterdir()
    )


def window(cell: Cell, seconds: float) -> Window:
    """Look at the loop for a while."""
    time.sleep(SETTLE)
    observed, _ = cell.records(10**15)
    first, begin = cell.latest_record(), cpu_ns(cell.loop_pid)
    time.sleep(seconds)
    last, end = cell.latest_record(), cpu_ns(cell.loop_pid)
    _, rows = cell.records(observed)
    cycles = int(last["cycle"] - first["cycle"])
    return Window(
        (end - begin) * 1e-3 / cycles,
        float(np.median(rows["compute_ns"])) * 1e-3,
        int(last["missed_cycles"] - first["missed_cycles"]),
    )


@contextmanager
def file_recorder(cell: Cell) -> Iterator[int]:
    """Record to a file; give the process."""
    with tempfile.TemporaryDirectory() as folder:
        cell.recorder.start(Path(folder) / "run.mcap")
        yield cell.recorder.recording.pid  # type: ignore[union-attr]
        cell.recorder.stop()


@contextmanager
def fault_recorder(cell: Cell) -> Iterator[int]:
    """Give the process that keeps the seconds around faults, which is there already."""
    yield cell.recorder._faults.pid  # type: ignore[union-attr]


@contextmanager
def monitor(cell: Cell) -> Iterator[int]:
    """Let twins follow; give the process."""
    line = [
        sys.executable,
        "-m",
        "multipanda_py.apps.cli",
        "monitor",
        "--node",
        cell.config.cell.name,
    ]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    if process.stdout is None or not process.stdout.readline().startswith("following"):
        raise SystemExit("recorder.py: the twins did not start")
    drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
    yield process.pid
    process.send_signal(signal.SIGINT)
    process.wait(30.0)
    drain.wait(30.0)


FOLLOWERS = {"file": file_recorder, "faults": fault_recorder, "monitor": monitor}


def pairs(
    cell: Cell, pid: int, number: int, seconds: float, report: Callable[[str], object]
) -> tuple[list[tuple[Window, Window]], float]:
    """Return windows without and with a follower, and the share of a core that it takes."""
    found = []
    begin, before = time.monotonic(), processor_time(pid)
    for k in range(number):
        both = {}
        for follows in (k % 2 == 0, k % 2 == 1):
            os.kill(pid, signal.SIGCONT if follows else signal.SIGSTOP)
            both[follows] = window(cell, seconds)
        os.kill(pid, signal.SIGCONT)
        found.append((both[False], both[True]))
        report(f"\r{k + 1} of {number} pairs")
    report("\r" + 20 * " " + "\r")
    # Rows of the windows without it are read behind them: all time counts.
    return found, (processor_time(pid) - before) / (time.monotonic() - begin)


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=count, default=15)
    parser.add_argument("--window", type=duration, default=1.2, help="[s], at most 1.5")
    parser.add_argument("--only", choices=tuple(FOLLOWERS), help="of what follows")
    parser.add_argument("--cell", type=Path, default=CELL)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    options = parser.parse_args()
    if options.window > LONGEST:
        parser.error(
            f"--window: got {options.window:g}, allowed up to {LONGEST:g} s: rows get lost"
        )
    data = CellConfig.from_yaml(options.cell).model_dump()
    data["cell"] |= {"name": f"recorder_{os.getpid()}", "placement": "process"}
    os.environ["MULTIPANDA_FAULT_LOGS"] = "on"
    figures = {}
    print(HEAD)
    print("|---|---|---|---|---|---|---|")
    for name in [options.only] if options.only else FOLLOWERS:
        with (
            tempfile.TemporaryDirectory() as folder,
            Cell(CellConfig.from_dict({**data, "recorder": {"folder": folder}})) as cell,
        ):
            if name != "faults":  # it alone
                os.kill(cell.recorder._faults.pid, signal.SIGSTOP)  # type: ignore[union-attr]
            with FOLLOWERS[name](cell) as pid:
                found, share = pairs(cell, pid, options.pairs, options.window, sys.stderr.write)
            if name != "faults":
                os.kill(cell.recorder._faults.pid, signal.SIGCONT)  # type: ignore[union-attr]
        figures[name] = {"pairs": [[vars(w) for w in pair] for pair in found], "share": share}
        print(row(name, found, share), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures))
    return 0


def row(name: str, found: list[tuple[Window, Window]], share: float) -> str:
    """Return a line of the table."""
    cpu = np.array([(one.cpu, other.cpu) for one, other in found])
    compute = np.array([(one.compute, other.compute) for one, other in found])
    low, middle, high = np.quantile(cpu[:, 1] / cpu[:, 0], [0.25, 0.5, 0.75])
    missed = [sum(pair[k].missed for pair in found) for k in (0, 1)]
    return (
        f"| {name} | {np.median(cpu[:, 0]):.1f} | {middle:.3f} ({low:.3f} to {high:.3f}) "
        f"| {np.median(compute[:, 0]):.1f} | {np.median(compute[:, 1] / compute[:, 0]):.3f} "
        f"| {missed[0]} without, {missed[1]} with | {share:.1%} |"
    )


if __name__ == "__main__":
    sys.exit(main())
