# SPDX-License-Identifier: Apache-2.0
"""Commands that record a cell to a log and plot logs."""

from __future__ import annotations

import argparse
import os
import time
from datetime import datetime
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    FAILED,
    OK,
    Verb,
    arm_of,
    check_output,
    complain,
    positive,
    print_events,
    print_line,
)
from multipanda_py.apps.commands.excite import follow, move_to_start, read_motion
from multipanda_py.cell import Cell
from multipanda_py.exceptions import ConfigurationError, LoopError
from multipanda_py.realtime.recording.log import check_log, check_recording
from multipanda_py.realtime.recording.log_reader import read
from multipanda_py.realtime.recording.plots import SUFFIXES, draw
from multipanda_py.realtime.recording.recorder import Recorded, Recording, new_file, recorded
from multipanda_py.realtime.running_cell import find_running
from multipanda_py.realtime.system.signals import end_in_order

_POLL_PERIOD = 0.2  # Period of checking the recording [s].
_MEGABYTE = 1e6


def _add_record_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", help="cell file to run and record")
    parser.add_argument(
        "--node", metavar="CELL", nargs="?", const="",
        help="record a cell that is running already, such as in a ROS node; CELL is the name in "
        "its file, and may be left out if only one cell runs",
    )  # fmt: skip
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="file to write; default: <cell>_<date>.mcap",
    )
    parser.add_argument(
        "--duration", type=positive, metavar="S", help="end after S seconds; default: Ctrl-C"
    )
    parser.add_argument(
        "--split", type=positive, metavar="MB", help="start another file after MB megabytes"
    )
    parser.add_argument(
        "--torque-terms", action="store_true",
        help="record the torques of controllet and features too; only for a cell that this "
        "command runs",
    )  # fmt: skip
    parser.add_argument(
        "--motion", type=Path, metavar="CSV",
        help="MOVES an arm of a cell that this command runs: to the start of a motion of "
        "multipanda excite, then along it while recording",
    )  # fmt: skip
    parser.add_argument("--arm", metavar="ARM", help="arm for --motion, if there are several")


def _run_record(options: argparse.Namespace) -> int:
    if (options.file is None) == (options.node is None):
        raise ConfigurationError("name either a cell file to run, or --node for a running node")
    if options.node is not None and options.torque_terms:
        raise ConfigurationError("--torque-terms: not allowed with --node. Name a cell file.")
    if options.motion is None and options.arm is not None:
        raise ConfigurationError("--arm: only with --motion. A recording contains all arms.")
    if options.motion is not None and (options.node is not None or options.duration is not None):
        raise ConfigurationError(
            "--motion: not allowed with --node, nor with --duration, because the motion sets the "
            "duration"
        )
    end_in_order()
    result = _attached(options) if options.file is None else _own(options)
    for path in result.files:
        print_line(f"{path}: {path.stat().st_size / _MEGABYTE:.1f} MB")
    print_line(f"{result.rows} cycle records, {result.dropped} lost")
    return FAILED if result.dropped else OK


def _own(options: argparse.Namespace) -> Recorded:
    own = Cell.from_yaml(options.file)
    # Errors in options are reported before the arms are connected.
    path = _new_log_path(options, own.config.cell.name)
    arm, law, points = "", "", None
    if options.motion is not None:
        arm = arm_of(own.arms, options.arm)
        points = read_motion(options.motion, arm, own.config.arms[arm])
    with own as cell:
        if cell.config.cell.placement == "inline":
            raise ConfigurationError(
                f"{options.file}: cell.placement: got inline, which does not run in real time. "
                "Use process or thread."
            )
        for warning in cell.warnings:
            complain(f"warning: {warning}")
        split = (options.split or 0.0) * _MEGABYTE
        if points is not None:
            print_line(f"{arm} moves to the start of {options.motion}")
            law = move_to_start(cell, arm, points)
        cell.recorder.start(path, split=split, torque_terms=options.torque_terms)
        print_line(f"recording to {path}")
        if points is not None:
            try:
                follow(cell, arm, law, points)
            except KeyboardInterrupt:
                raise LoopError(
                    f"{path}: incomplete, because Ctrl-C stopped the motion before its end. "
                    "Record it again"
                ) from None
            return cell.recorder.stop()
        until = time.monotonic() + (options.duration or float("inf"))
        try:
            while time.monotonic() < until:
                cell.check()
                print_events(cell)
                time.sleep(min(_POLL_PERIOD, max(0.0, until - time.monotonic())))
        except KeyboardInterrupt:
            print_line("stopped")
        finally:
            print_events(cell)
        return cell.recorder.stop()


def _attached(options: argparse.Namespace) -> Recorded:
    plan, memory = find_running(options.node)
    path = _new_log_path(options, plan.name)
    fd = os.open(memory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        split = int((options.split or 0.0) * _MEGABYTE)
        recording = Recording(plan, fd, {"kind": "file", "path": str(path), "split": split})
    finally:
        os.close(fd)
    recording.wait_until_ready()
    print_line(f"recording cell {plan.name!r} to {path}")
    until = time.monotonic() + (options.duration or float("inf"))
    try:
        while time.monotonic() < until and memory.exists() and recording.is_alive:
            time.sleep(min(_POLL_PERIOD, max(0.0, until - time.monotonic())))
        if not memory.exists():
            complain("the cell has ended")
    except KeyboardInterrupt:
        print_line("stopped")
    return recorded(recording.stop())


def _new_log_path(options: argparse.Namespace, cell: str) -> Path:
    return check_output(new_file(options.output or _default(cell)))


def _default(cell: str) -> Path:
    return Path(f"{cell}_{datetime.now():%Y%m%dT%H%M%S}.mcap")


def _add_plot_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+", help="one log, or several to combine")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT",
        help=f"image to write ({', '.join(SUFFIXES)}); default: <log>.png",
    )  # fmt: skip
    parser.add_argument(
        "--robot", metavar="NAME", help="model of the arm, if the log does not name it"
    )


def _run_plot(options: argparse.Namespace) -> int:
    output = options.output or Path(Path(options.logs[0]).stem + ".png")
    check_output(output, *SUFFIXES, beside=options.logs)
    log = read(options.logs, robot=options.robot)
    for sentence in check_recording(log):
        complain(f"note: {sentence}")
    for arm in log.arms.values():
        for sentence in check_log(arm, moves=False):  # A log of an arm at rest is valid.
            complain(f"note: {sentence}")
    for path in draw(log, output):
        print_line(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    return OK


COMMANDS = {
    "record": Verb(
        "Record every cycle of a cell to MCAP; Ctrl-C ends it.",
        _add_record_arguments,
        _run_record,
    ),
    "plot": Verb(
        "Plot a log: joints, torques, errors, forces, controllets, faults and timing of each arm.",
        _add_plot_arguments,
        _run_plot,
    ),
}
