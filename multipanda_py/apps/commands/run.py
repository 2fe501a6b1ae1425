# SPDX-License-Identifier: Apache-2.0
"""Run a cell without ROS."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time

from multipanda_py.apps.commands.command_line import (
    FAILED,
    OK,
    complain,
    positive,
    print_events,
    print_line,
)
from multipanda_py.cell import Cell
from multipanda_py.realtime.system.signals import end_in_order

SUMMARY = "Run a cell without ROS; Ctrl-C ends it."

STATUS_PERIOD = 1.0
"""Period of status lines [s]."""
_CHECK_PERIOD = 0.05  # Period of checking the cell [s].


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="cell file")
    parser.add_argument(
        "--duration", type=positive, default=math.inf, metavar="S", help="end after S seconds"
    )
    parser.add_argument("--viewer", action="store_true", help="open a window with the scene")
    parser.add_argument(
        "--placement",
        choices=("process", "thread", "inline"),
        help="where the loop runs, instead of the file's setting; inline is not in real time",
    )


def run(options: argparse.Namespace) -> int:
    """Run the cell and print its status once a second."""
    cell = Cell.from_yaml(options.file, placement=options.placement)
    end_in_order()
    try:
        cell.start()
        return _watch(cell, options)
    finally:
        cell.close()


def _watch(cell: Cell, options: argparse.Namespace) -> int:
    from multipanda_py.simulation.viewer import start_viewer, stop_viewer

    for warning in cell.warnings:
        complain(f"warning: {warning}")
    viewer = None
    started = time.monotonic()
    try:
        if options.viewer and not cell.config.cell.viewer:
            viewer = start_viewer(cell.config, cell.realtime, cell.shared_memory_fd)
        _run_for(cell, options.duration, started, viewer)
    except KeyboardInterrupt:
        print_line(f"stopped after {time.monotonic() - started:.1f} s")
        return OK
    finally:
        print_events(cell)  # The last events tell the cause of an error.
        if viewer is not None:
            stop_viewer(viewer)
    faults = {arm: cell.state(arm).fault for arm in cell.arms}
    for arm, fault in faults.items():
        if fault:
            complain(f"multipanda run: {arm}: ended with a latched fault: {fault}")
    return FAILED if any(faults.values()) else OK


def _run_for(
    cell: Cell, duration: float, started: float, viewer: subprocess.Popen[bytes] | None
) -> None:
    inline = cell.config.cell.placement == "inline"
    rate = cell.config.cell.rate
    cycles, reported_cycles, reported = 0, 0, started
    while True:
        now = time.monotonic()
        passed = cycles / rate if inline else now - started
        print_events(cell)
        if passed >= duration or now >= reported + STATUS_PERIOD:
            reported_cycles = _print_status(cell, passed, now - reported, reported_cycles)
            reported = now
        if passed >= duration:
            return
        if not inline:
            cell.check()
            time.sleep(min(_CHECK_PERIOD, duration - passed))
            continue
        batch = max(1, round(min(_CHECK_PERIOD, duration - passed) * rate))
        cell.step(batch)
        cycles += batch
        # A pause keeps the motion in the viewer at real speed.
        if viewer is not None and viewer.poll() is None:
            time.sleep(max(0.0, started + cycles / rate - time.monotonic()))


def _print_status(cell: Cell, passed: float, wall: float, reported_cycles: int) -> int:
    """Print the status since the last call, and return the total number of cycles."""
    total, _ = cell.records(since=sys.maxsize)
    now = cell.statistics(max(2, total - reported_cycles))
    if cell.config.cell.placement == "inline":  # It runs as fast as it can.
        timing = f"{(total - reported_cycles) / max(wall, 1e-9):6.0f} cycles/s"
        factor = (total - reported_cycles) / cell.config.cell.rate / max(wall, 1e-9)
    else:
        timing = (
            f"{now.rate:6.0f} Hz, late p99 {now.lateness_p99 * 1e6:.0f} us, missed {now.missed}"
        )
        factor = now.real_time_factor
    active = ", ".join(cell.active)
    print_line(f"{passed:7.1f} s, {timing}, real-time factor {factor:.2f}, active: {active}")
    return total
