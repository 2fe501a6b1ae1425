# SPDX-License-Identifier: Apache-2.0
"""Record a cell: one that this command runs, or one that runs already."""

from __future__ import annotations

import argparse
import os
import time
from datetime import datetime
from pathlib import Path

from multipanda_py.cell import Cell
from multipanda_py.commands.options import positive
from multipanda_py.commands.output import FAILED, OK, complain, say
from multipanda_py.exceptions import ConfigurationError, LogError
from multipanda_py.logs.recording import Recorded, Recording, recorded
from multipanda_py.logs.running import find_running
from multipanda_py.machine.interruption import end_in_order

SUMMARY = "Record every cycle of a cell to MCAP; Ctrl-C ends it."

_LOOK = 0.2
_MEGABYTE = 1e6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", nargs="?", help="a cell file: run it and record")
    parser.add_argument(
        "--node", metavar="CELL", nargs="?", const="",
        help="record a cell that runs already, as in a ROS node, by the name in its file; "
        "without a name: the only one that runs",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT", help="default: <cell>_<date>.mcap"
    )
    parser.add_argument(
        "--duration", type=positive, metavar="S", help="end after S seconds; default: Ctrl-C"
    )
    parser.add_argument(
        "--split", type=positive, metavar="MB", help="begin another file after MB megabytes"
    )
    parser.add_argument(
        "--torque-terms", action="store_true",
        help="with what law and features add to torques, of a cell that this command runs",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Record, and say what there is."""
    if (options.file is None) == (options.node is None):
        raise ConfigurationError("name a cell file to run and record, or --node, and not both")
    if options.node is not None and options.torque_terms:
        raise ConfigurationError("--torque-terms is for a cell that this command runs")
    end_in_order()
    found = _attached(options) if options.file is None else _own(options)
    for path in found.files:
        say(f"{path}: {path.stat().st_size / _MEGABYTE:.1f} MB")
    say(f"{found.rows} rows, {found.dropped} lost")
    return FAILED if found.dropped else OK


def _own(options: argparse.Namespace) -> Recorded:
    with Cell.from_yaml(options.file) as cell:
        if cell.config.cell.placement == "inline":
            raise ConfigurationError(
                f"{options.file}: got placement inline, which has no time of its own; allowed "
                "process or thread: a program that steps it records it by cell.recorder"
            )
        for warning in cell.warnings:
            complain(f"warning: {warning}")
        path = options.output or _default(cell.config.cell.name)
        split = (options.split or 0.0) * _MEGABYTE
        cell.recorder.start(path, split=split, torque_terms=options.torque_terms)
        say(f"recording to {path}")
        until = time.monotonic() + (options.duration or float("inf"))
        try:
            while time.monotonic() < until:
                cell.check()
                for event in cell.events():
                    say(f"event: {event}")
                time.sleep(min(_LOOK, max(0.0, until - time.monotonic())))
        except KeyboardInterrupt:
            say("stopped")
        return cell.recorder.stop()


def _attached(options: argparse.Namespace) -> Recorded:
    plan, memory = find_running(options.node)
    path = (options.output or _default(plan.name)).absolute()
    if path.suffix != ".mcap":
        raise LogError(f"{path}: got suffix {path.suffix!r}, allowed .mcap")
    if path.exists():
        raise LogError(f"{path}: exists already")
    fd = os.open(memory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        split = int((options.split or 0.0) * _MEGABYTE)
        recording = Recording(plan, fd, {"kind": "file", "path": str(path), "split": split})
    finally:
        os.close(fd)
    recording.wait_until_ready()
    say(f"recording cell {plan.name!r} to {path}")
    until = time.monotonic() + (options.duration or float("inf"))
    try:
        while time.monotonic() < until and memory.exists() and recording.is_alive:
            time.sleep(min(_LOOK, max(0.0, until - time.monotonic())))
        if not memory.exists():
            complain("the cell has ended")
    except KeyboardInterrupt:
        say("stopped")
    return recorded(recording.stop())


def _default(cell: str) -> Path:
    return Path(f"{cell}_{datetime.now():%Y%m%dT%H%M%S}.mcap")
