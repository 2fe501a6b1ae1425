# SPDX-License-Identifier: Apache-2.0
"""Plot a log."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import OK, check_output, complain, print_line
from multipanda_py.realtime.recording.log import check_log, check_recording
from multipanda_py.realtime.recording.log_reader import read
from multipanda_py.realtime.recording.plots import SUFFIXES, draw

SUMMARY = (
    "Plot a log: joints, torques, errors, forces, controllets, faults and timing of each arm."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logs", metavar="LOG", nargs="+", help="one log, or several to combine")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="OUT",
        help=f"image to write ({', '.join(SUFFIXES)}); default: <log>.png",
    )  # fmt: skip
    parser.add_argument(
        "--robot", metavar="NAME", help="model of the arm, if the log does not name it"
    )


def run(options: argparse.Namespace) -> int:
    """Plot the log and print notes on suspicious data."""
    output = options.output or Path(Path(options.logs[0]).stem + ".png")
    check_output(output, *SUFFIXES, beside=options.logs)
    log = read(options.logs, robot=options.robot)
    for sentence in check_recording(log):
        complain(f"note: {sentence}")
    for arm in log.arms.values():
        for sentence in check_log(arm, moves=False):  # Plots of an arm at rest are useful, too.
            complain(f"note: {sentence}")
    for path in draw(log, output):
        print_line(f"{path}: {path.stat().st_size / 1e3:.0f} kB")
    return OK
