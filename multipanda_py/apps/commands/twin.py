# SPDX-License-Identifier: Apache-2.0
"""Commands that write a perturbed copy of a cell, and compare twins with reference robots."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from multipanda_py.apps.commands.command_line import (
    CELL_FILES,
    FAILED,
    OK,
    Verb,
    add_recover,
    add_repeats,
    add_seconds,
    check_output,
    complain,
    count,
    print_line,
    seed,
)
from multipanda_py.config.cell_file import CellConfig, changed_text
from multipanda_py.config.parameter_file import merged
from multipanda_py.config.perturbation import FR3_GEARS, TYPICAL_ERRORS_FILE, PerturbationSpec
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import replacing
from multipanda_py.identification.validation import TASKS, validate
from multipanda_py.identification.validation.report import summary_lines, write_report
from multipanda_py.identification.validation.sweep import sweep
from multipanda_py.realtime.recording import Log, read
from multipanda_py.realtime.recording.log import check_recording
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import pyplot


def _add_perturb_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("cell", metavar="CELL", help="cell file")
    parser.add_argument(
        "--spec", metavar="FILE",
        help="values and ranges; default: typical deviations of a carefully built arm, "
        f"{TYPICAL_ERRORS_FILE.name} of multipanda_py.config.perturbation; {FR3_GEARS.name} has "
        f"hysteresis",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=seed, help="seed of the random values; default: that of --spec"
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="cell file to write")


def _run_perturb(options: argparse.Namespace) -> int:
    target = check_output(Path(options.output), *CELL_FILES, beside=[options.cell, options.spec])
    config = CellConfig.from_yaml(options.cell)
    if not any(arm.backend == "mujoco" for arm in config.arms.values()):
        raise ConfigurationError(
            f"{options.cell}: has no arm with the backend mujoco, which simulates perturbations. "
            "Use a cell file with simulated arms."
        )
    spec = PerturbationSpec.from_yaml(options.spec or TYPICAL_ERRORS_FILE)
    spec.draw(config, options.seed)  # Invalid values raise an error before the file is written.
    values = spec.values_for(config, options.seed)
    change: dict[str, Any] = {}
    for section, keys in values.items():
        layer: dict[str, Any] = dict(keys)
        for step in reversed(section.split(".")):
            layer = {step: layer}
        change = merged(change, layer)
    used = spec.seed if options.seed is None else options.seed
    head = f"# A perturbed copy of {Path(options.cell).name}, seed {used}."
    text = changed_text(options.cell, change, head)
    with replacing(target) as partial:
        partial.write_text(text, encoding="utf-8")
        CellConfig.from_yaml(partial)
    print_line(f"{target}: {sum(map(len, values.values()))} keys drawn with seed {used}")
    return OK


def add_tasks(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare ``--task``, which selects validation tasks; ``text`` is its help."""
    parser.add_argument(
        "--task", metavar="N", type=int, action="append", choices=tuple(TASKS), help=text
    )


def add_force_controllets(parser: argparse.ArgumentParser, text: str) -> None:
    """Declare ``--controllet``, the controllets of tasks with a force; ``text`` is its help."""
    names = sorted({name for task in TASKS.values() for name in task.controllets})
    parser.add_argument("--controllet", metavar="NAME", action="append", choices=names, help=text)


def _add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plant", metavar="FILE", required=True,
        help="cell file of the reference robot, simulated or real, or a log of one task",
    )  # fmt: skip
    parser.add_argument(
        "--twin", metavar="CELL", required=True, help="cell file of the simulated twin"
    )
    titles = "; ".join(f"{number} {task.title}" for number, task in TASKS.items())
    add_tasks(
        parser,
        f"task to run, may be repeated: {titles}; "
        "default: all that the cells have enough arms for",
    )
    add_force_controllets(
        parser, "force controllet for tasks 3 and 4, ufic or plain_pi; default: both"
    )
    add_repeats(parser, 5)
    add_seconds(parser, 10.0)
    parser.add_argument("--seed", type=seed, default=0, help="seed of the noise, default 0")
    add_recover(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="validation.html",
        help="report to write, with its numbers as JSON next to it; default validation.html",
    )  # fmt: skip


def _run_validate(options: argparse.Namespace) -> int:
    end_in_order()
    pyplot()  # Fails now, not after minutes, if matplotlib is missing.
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
        seed=options.seed, controllets=options.controllet or (), recover=options.recover,
        report=complain,
    )  # fmt: skip
    about = {"repeats": options.repeats, "seconds of each": options.seconds, "seed": options.seed}
    beside = write_report(result, target, options.plant, options.twin, about)
    for line in summary_lines(result):
        print_line(line)
    print_line(f"{target}, {beside}")
    return OK if all(one.repeats for one in result) else FAILED


def _add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
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
    add_tasks(
        parser, "task to run; may be repeated; default: all that the cell has enough arms for"
    )
    add_repeats(parser, 1)
    add_seconds(parser, 10.0)
    parser.add_argument(
        "--jobs", type=count, default=1, metavar="N", help="number of processes, default 1"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True,
        help="table to write, .parquet; the same arguments continue an interrupted sweep",
    )  # fmt: skip


def _run_sweep(options: argparse.Namespace) -> int:
    end_in_order()
    target = check_output(Path(options.output), ".parquet")
    config = CellConfig.from_yaml(options.cell)
    spec = PerturbationSpec.from_yaml(options.spec or TYPICAL_ERRORS_FILE)
    tasks = options.task or [n for n, task in TASKS.items() if task.arms <= len(config.arms)]
    rows = sweep(
        config, spec, range(options.seed, options.seed + options.plants), target,
        sorted(set(tasks)), seconds=options.seconds, repeats=options.repeats,
        jobs=options.jobs, report=complain,
    )  # fmt: skip
    print_line(f"{target}: {rows} rows of {options.plants} plants")
    return OK


COMMANDS = {
    "perturb": Verb(
        "Write a copy of a cell with other inertia, friction, delay, noise, contact and poses.",
        _add_perturb_arguments,
        _run_perturb,
    ),
    "validate": Verb(
        "Measure the deviation of a simulated twin from a robot or another simulation, by tasks.",
        _add_validate_arguments,
        _run_validate,
    ),
    "sweep": Verb(
        "Validate a cell against many randomly perturbed simulations in parallel; write a table.",
        _add_sweep_arguments,
        _run_sweep,
    ),
}
