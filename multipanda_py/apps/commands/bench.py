# SPDX-License-Identifier: Apache-2.0
"""Measure how fast this machine runs a cell, beside the multipanda_ros2 paper."""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

from multipanda_py.apps.bench.conditions import PARTS, QUICK, Effort
from multipanda_py.apps.commands.command_line import FAILED, OK, complain, count, positive, say
from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.signals import end_in_order

SUMMARY = "Measure how fast this machine is, beside the multipanda_ros2 paper; writes a report."

_END = 3.0  # for everything to end after Ctrl-C [s]
_ROOM = 2**20  # of a report and its picture, 0.2 MiB with --quick


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--quick", action="store_true", help="a minute instead of ten; longer on a busy machine"
    )
    parser.add_argument(
        "-o", dest="folder", type=Path, default=Path("bench"), metavar="DIR",
        help="for report.json, .md and .png, of --scaling scaling.json, .md and .png (default: "
        "bench)",
    )  # fmt: skip
    parser.add_argument("--seconds", type=positive, metavar="S", help="of each condition")
    parser.add_argument("--trials", type=count, metavar="N", help="number of switches")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=None,
        help="laws alone, the same in C++, the node on simulated arms, on simulated FCI robots, "
        "one to eight arms and several cells",
    )  # fmt: skip
    parser.add_argument("--scaling", action="store_true", help="the same as --only scaling")


def run(options: argparse.Namespace) -> int:
    """Measure, write the report, print its tables."""
    from multipanda_py.apps.bench.plots import draw, draw_scaling
    from multipanda_py.apps.bench.report import markdown
    from multipanda_py.apps.bench.run import run as measure

    effort = QUICK if options.quick else Effort()
    only = ("scaling",) if options.scaling else tuple(options.only or ()) or None
    given = {"seconds": options.seconds, "trials": options.trials, "parts": only}
    effort = replace(effort, **{name: value for name, value in given.items() if value is not None})
    options.folder.mkdir(parents=True, exist_ok=True)
    _check_room(options.folder)
    end_in_order(_END)
    report, samples = measure(effort, complain)
    name = "scaling" if effort.parts == ("scaling",) else "report"
    pictures = {"report.png": "", "scaling.png": ""}
    for picture, wanted, drawing in (
        ("report.png", effort.parts != ("scaling",), partial(draw, report, samples)),
        ("scaling.png", "scaling" in report, partial(draw_scaling, report)),
    ):
        try:
            if wanted:
                drawing(options.folder / picture)
                pictures[picture] = picture
        except (BenchError, OSError) as error:
            complain(f"{error}")
    text = markdown(report, *pictures.values())
    say(text)  # before what a full disk may refuse
    (options.folder / f"{name}.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    (options.folder / f"{name}.md").write_text(text, "utf-8")
    written = ", ".join([f"{name}.json", *filter(None, pictures.values())])
    say(f"written: {options.folder}/{name}.md, {written}")
    return OK if set(PARTS) & set(report) else FAILED


def _check_room(folder: Path) -> None:
    """Find out before ten minutes of measuring whether a report can be written.

    Raises:
        BenchError: If not.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            if probe.write(bytes(_ROOM)) < _ROOM:
                raise BenchError(f"{folder}: no room for a report")
    except OSError as error:
        raise BenchError(f"{folder}: no report can be written: {error.strerror}") from error
