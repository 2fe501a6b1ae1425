# SPDX-License-Identifier: Apache-2.0
"""Validate a cell against many randomly perturbed simulations."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    OK,
    check_output,
    complain,
    count,
    positive,
    print_line,
    seed,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.perturbation import TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.identification.validation import TASKS
from multipanda_py.identification.validation.sweep import sweep
from multipanda_py.realtime.system.signals import end_in_order

SUMMARY = "Validate a cell against many randomly perturbed simulations in parallel; write a table."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", metavar="CELL", help="cell file of the simulated twin")
    parser.add_argument(
        "--spec", metavar="FILE", help="ranges of the perturbations, as for multipanda perturb"
    )
    parser.add_argument(
        "--plants", type=count, default=10, metavar="N", help="number of simulations, default 10"
    )
    parser.add_argument(
        "--seed", type=seed, default=0, help="seed of the first simulation, default 0"
    )
    parser.add_argument(
        "--task", metavar="N", type=int, action="append", choices=tuple(TASKS),
        help="task to run; may be repeated; default: all that the cell has enough arms for",
    )  # fmt: skip
    parser.add_argument(
        "--repeats", type=count, default=1, metavar="N", help="repetitions of each task, default 1"
    )
    parser.add_argument(
        "--seconds",
        type=positive,
        default=10.0,
        metavar="S",
        help="duration of each task, default 10",
    )
    parser.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="number of processes, default 1"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True,
        help="table to write, .parquet; the same arguments continue an interrupted sweep",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Run the sweep and write the table."""
    end_in_order()
    target = check_output(Path(options.output), ".parquet")
    config = CellConfig.from_yaml(options.cell)
    spec = PerturbationSpec.from_yaml(options.spec or TYPICAL_ERRORS_FILE)
    tasks = options.task or [n for n, task in TASKS.items() if task.arms <= len(config.arms)]
    rows = sweep(
        config, spec, range(options.seed, options.seed + options.plants), target,
        sorted(set(tasks)), seconds=options.seconds, repeats=options.repeats,
        jobs=options.jobs, say=complain,
    )  # fmt: skip
    print_line(f"{target}: {rows} rows of {options.plants} plants")
    return OK
