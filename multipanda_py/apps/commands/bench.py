# SPDX-License-Identifier: Apache-2.0
"""Measure the speed of a cell on this machine and compare it with the multipanda_ros2 paper."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from multipanda_py.apps.bench.conditions import PARTS, QUICK_EFFORT, Effort
from multipanda_py.apps.commands.command_line import (
    FAILED,
    OK,
    complain,
    count,
    positive,
    print_line,
)
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.signals import end_in_order

SUMMARY = (
    "Measure the speed of this machine, compare it with the multipanda_ros2 paper, report it."
)

_END_TIMEOUT = 3.0  # Time limit for all processes to end after Ctrl-C [s].
_FREE_SPACE = 2**20  # Minimum free space for the report and its plots [bytes].


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--quick", action="store_true", help="take one minute, not ten; longer on a busy machine"
    )
    parser.add_argument(
        "-o", dest="folder", type=Path, default=Path("bench"), metavar="DIR",
        help="folder for report.json, .md and .png; for --scaling: scaling.json, .md and .png "
        "(default: bench)",
    )  # fmt: skip
    parser.add_argument("--seconds", type=positive, metavar="S", help="duration of each condition")
    parser.add_argument("--trials", type=count, metavar="N", help="number of controllet switches")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=None,
        help="parts to measure. hot: controllets alone; cpp: the same in C++; paced: node with "
        "simulated arms; wired: node with simulated FCI robots; scaling: one to eight arms "
        "and several cells",
    )  # fmt: skip
    parser.add_argument("--scaling", action="store_true", help="short for --only scaling")


def run(options: argparse.Namespace) -> int:
    """Run the benchmark, write its report and plots, and print the tables."""
    from multipanda_py.apps.bench.plots import draw, draw_scaling
    from multipanda_py.apps.bench.report import markdown
    from multipanda_py.apps.bench.run import run as measure

    effort = QUICK_EFFORT if options.quick else Effort()
    only = ("scaling",) if options.scaling else tuple(options.only or ()) or None
    values = {"seconds": options.seconds, "trials": options.trials, "parts": only}
    effort = replace(
        effort, **{name: value for name, value in values.items() if value is not None}
    )
    options.folder.mkdir(parents=True, exist_ok=True)
    _check_report_can_be_written(options.folder)
    end_in_order(_END_TIMEOUT)
    report, samples = measure(effort, complain)
    name = "scaling" if effort.parts == ("scaling",) else "report"
    images = {"report.png": "", "scaling.png": ""}
    for image, desired, drawing in (
        ("report.png", effort.parts != ("scaling",), partial(draw, report, samples)),
        ("scaling.png", "scaling" in report, partial(draw_scaling, report)),
    ):
        try:
            if desired:
                drawing(options.folder / image)
                images[image] = image
        except (BenchError, OSError) as error:
            complain(f"{error}")
    text = markdown(report, *images.values())
    print_line(text)  # Printed before writing, which may fail on a full disk.
    (options.folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    (options.folder / f"{name}.md").write_text(text, "utf-8")
    written = ", ".join([f"{name}.json", *filter(None, images.values())])
    print_line(f"written: {options.folder}/{name}.md, {written}")
    return OK if set(PARTS) & set(report) else FAILED


def _check_report_can_be_written(folder: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            if probe.write(bytes(_FREE_SPACE)) < _FREE_SPACE:
                raise BenchError(
                    f"{folder}: less than 1 MiB free for a report. Choose another folder"
                )
    except OSError as error:
        raise BenchError(f"{folder}: the report cannot be written: {error.strerror}") from error
