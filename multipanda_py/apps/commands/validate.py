# SPDX-License-Identifier: Apache-2.0
"""Measure the deviation of a simulated twin from a reference robot in standard tasks."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    CELL_FILES,
    FAILED,
    OK,
    add_recover,
    check_output,
    complain,
    count,
    positive,
    print_line,
    seed,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.identification.validation import TASKS, validate
from multipanda_py.identification.validation.report import summary_lines, write_report
from multipanda_py.realtime.recording import Log, read
from multipanda_py.realtime.recording.log import check_recording
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import pyplot

SUMMARY = "Measure the deviation of a simulated twin from a robot or another simulation, by tasks."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plant", metavar="FILE", required=True,
        help="cell file of the reference robot, simulated or real, or a log of one task",
    )  # fmt: skip
    parser.add_argument(
        "--twin", metavar="CELL", required=True, help="cell file of the simulated twin"
    )
    parser.add_argument(
        "--task", metavar="N", type=int, action="append", choices=tuple(TASKS),
        help="task to run, may be repeated: "
        + "; ".join(f"{number} {task.title}" for number, task in TASKS.items())
        + "; default: all that the cells have enough arms for",
    )  # fmt: skip
    parser.add_argument(
        "--controllet", metavar="NAME", action="append",
        choices=sorted({law for task in TASKS.values() for law in task.laws}),
        help="force controllet for tasks 3 and 4, ufic or plain_pi; default: both",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=count, default=5, metavar="N", help="repetitions of each task, default 5"
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=10.0,
        metavar="S",
        help="duration of each task, default 10",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of the noise, default 0")
    add_recover(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="validation.html",
        help="report to write, with its numbers as JSON next to it; default validation.html",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Run the tasks and write the report."""
    end_in_order()
    pyplot()  # A missing matplotlib must fail now, not after minutes.
    target = check_output(Path(options.output), ".html")
    check_output(target.with_suffix(".json"))
    twin = CellConfig.from_yaml(options.twin)
    plant: CellConfig | Log
    if Path(options.plant).suffix.lower() in CELL_FILES:
        plant = CellConfig.from_yaml(options.plant)
    else:
        plant = read(options.plant)
        for sentence in check_recording(plant):
            complain(f"note: {sentence}")
    fewest = min(len(plant.arms), len(twin.arms))
    chosen = options.task or [n for n, task in TASKS.items() if task.arms <= fewest]
    result = validate(
        plant, twin, sorted(set(chosen)), repeats=options.repeats, seconds=options.seconds,
        seed=options.seed, laws=options.controllet or (), recover=options.recover, say=complain,
    )  # fmt: skip
    about = {"repeats": options.repeats, "seconds of each": options.seconds, "seed": options.seed}
    beside = write_report(result, target, options.plant, options.twin, about)
    for line in summary_lines(result):
        print_line(line)
    print_line(f"{target}, {beside}")
    return OK if all(one.repeats for one in result) else FAILED
