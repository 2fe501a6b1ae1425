# SPDX-License-Identifier: Apache-2.0
"""Additional processor time of a loop due to recorders and digital-twin monitors.

A real-time cell of two simulated arms runs all the time. Windows with and without a follower of
its records alternate; without, the follower is stopped (SIGSTOP). The order changes from pair to
pair, so that other load affects both equally. A window gives the processor time of the loop's
process per cycle, by the clock of the scheduler, and the median time of a cycle.

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
"""Time between a stop or start of the follower and the next window [s]."""
MAX_WINDOW = 1.5
"""Maximum duration of a window [s]. Two consecutive windows can be without follower, and the ring
holds four seconds."""

HEADER = (
    "| follower | processor time of the loop per cycle [us] | with / without, median of pairs "
    "(interquartile range) | cycle [us] | with / without | missed cycles | load of a core |"
)


@dataclass(frozen=True)
class Window:
    """Load of the loop in one window.

    Attributes:
        cpu: Processor time per cycle [us].
        compute: Median time of a cycle [us].
        missed: Number of missed cycles.
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
    """Measure the loop for a duration [s]."""
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
    """Record to a file; yield the process id of the recorder."""
    with tempfile.TemporaryDirectory() as folder:
        cell.recorder.start(Path(folder) / "run.mcap")
        yield cell.recorder.recording.pid  # type: ignore[union-attr]
        cell.recorder.stop()


@contextmanager
def fault_recorder(cell: Cell) -> Iterator[int]:
    """Yield the process id of the fault recorder, which the cell has started."""
    yield cell.recorder._faults.pid  # type: ignore[union-attr]


@contextmanager
def monitor(cell: Cell) -> Iterator[int]:
    """Run the digital-twin monitor; yield its process id."""
    command = [
        sys.executable,
        "-m",
        "multipanda_py.apps.cli",
        "monitor",
        "--node",
        cell.config.cell.name,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if process.stdout is None or not process.stdout.readline().startswith("following"):
        raise SystemExit("recorder.py: the digital-twin monitor did not start")
    drain = subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)
    yield process.pid
    process.send_signal(signal.SIGINT)
    process.wait(30.0)
    drain.wait(30.0)


FOLLOWERS = {"file": file_recorder, "faults": fault_recorder, "monitor": monitor}


def pairs(
    cell: Cell, pid: int, number: int, seconds: float, report: Callable[[str], object]
) -> tuple[list[tuple[Window, Window]], float]:
    """Return windows without and with the follower, and the load of the follower [cores]."""
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
    # The follower reads records of stopped windows later, so its load is over the whole time.
    return found, (processor_time(pid) - before) / (time.monotonic() - begin)


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--pairs", type=count, default=15)
    parser.add_argument("--window", type=duration, default=1.2, help="duration [s], at most 1.5")
    parser.add_argument("--only", choices=tuple(FOLLOWERS), help="follower to measure")
    parser.add_argument("--cell", type=Path, default=CELL)
    parser.add_argument("--json", type=Path, help="write all results to this file")
    options = parser.parse_args()
    if options.window > MAX_WINDOW:
        parser.error(
            f"--window: got {options.window:g}, allowed up to {MAX_WINDOW:g} s; "
            "longer windows lose records"
        )
    data = CellConfig.from_yaml(options.cell).model_dump()
    data["cell"] |= {"name": f"recorder_{os.getpid()}", "placement": "process"}
    os.environ["MULTIPANDA_FAULT_LOGS"] = "on"
    figures = {}
    print(HEADER)
    print("|---|---|---|---|---|---|---|")
    for name in [options.only] if options.only else FOLLOWERS:
        with (
            tempfile.TemporaryDirectory() as folder,
            Cell(CellConfig.from_dict({**data, "recorder": {"folder": folder}})) as cell,
        ):
            if name != "faults":  # no second follower
                os.kill(cell.recorder._faults.pid, signal.SIGSTOP)  # type: ignore[union-attr]
            with FOLLOWERS[name](cell) as pid:
                found, load = pairs(cell, pid, options.pairs, options.window, sys.stderr.write)
            if name != "faults":
                os.kill(cell.recorder._faults.pid, signal.SIGCONT)  # type: ignore[union-attr]
        figures[name] = {"pairs": [[vars(w) for w in pair] for pair in found], "share": load}
        print(row(name, found, load), flush=True)
    if options.json:
        options.json.write_text(json.dumps(figures))
    return 0


def row(name: str, found: list[tuple[Window, Window]], load: float) -> str:
    """Return a row of the table in Markdown."""
    cpu = np.array([(one.cpu, other.cpu) for one, other in found])
    compute = np.array([(one.compute, other.compute) for one, other in found])
    low, middle, high = np.quantile(cpu[:, 1] / cpu[:, 0], [0.25, 0.5, 0.75])
    missed = [sum(pair[k].missed for pair in found) for k in (0, 1)]
    return (
        f"| {name} | {np.median(cpu[:, 0]):.1f} | {middle:.3f} ({low:.3f} to {high:.3f}) "
        f"| {np.median(compute[:, 0]):.1f} | {np.median(compute[:, 1] / compute[:, 0]):.3f} "
        f"| {missed[0]} without, {missed[1]} with | {load:.1%} |"
    )


if __name__ == "__main__":
    sys.exit(main())
