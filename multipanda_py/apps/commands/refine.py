# SPDX-License-Identifier: Apache-2.0
"""Bring a twin nearer to its plant, round by round."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    OK,
    add_recover,
    complain,
    count,
    positive,
    say,
    seed,
)
from multipanda_py.apps.commands.motion import read_motion
from multipanda_py.config.cell_file import CellConfig, changed_text
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.identification.calibration import Refinement, RefinementPlan, refine, report
from multipanda_py.identification.calibration.contact_parameters import TABLE
from multipanda_py.identification.calibration.improvement import body_layer, law_layer
from multipanda_py.identification.validation import TASKS
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import needed, pyplot

SUMMARY = "Validate, identify, put back and validate again, until a twin comes no nearer."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--plant", metavar="CELL", required=True, help="a cell, simulated or real, whose arms MOVE"
    )
    parser.add_argument("--twin", metavar="CELL", required=True, help="a simulated cell file")
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, required=True,
        help="a new folder: report.html and .json, a file per arm, twin.yaml and plant.yaml "
        "with them",
    )  # fmt: skip
    parser.add_argument(
        "--task", metavar="N", type=int, action="append", choices=tuple(TASKS),
        help="of multipanda validate, again for more; default 1 to 4",
    )  # fmt: skip
    parser.add_argument(
        "--law", metavar="NAME", action="append",
        choices=sorted({law for task in TASKS.values() for law in task.laws}),
        help="force laws to use in tasks 3 and 4; ufic if none is named",
    )  # fmt: skip
    parser.add_argument(
        "--seconds", type=positive, default=4.0, metavar="S", help="of each task, default 4"
    )
    parser.add_argument("--repeats", type=count, default=1, metavar="N", help="default 1")
    parser.add_argument("--rounds", type=count, default=3, metavar="N", help="at most, default 3")
    parser.add_argument(
        "--motion", metavar="ARM=CSV", action="append", default=[],
        help="of multipanda excite, for every round; without it each round searches for another",
    )  # fmt: skip
    parser.add_argument(
        "--evaluations", type=count, default=600, help="of that search, default 600"
    )
    parser.add_argument("--seed", type=seed, default=0, help="of noise and search, default 0")
    parser.add_argument(
        "--again", action="store_true",
        help="begin anew; without it, a command that was cut off goes on with what it has done",
    )  # fmt: skip
    add_recover(parser)


def run(options: argparse.Namespace) -> int:
    """Do the rounds; the folder is there whole or not at all."""
    end_in_order()
    for library in ("scipy.optimize", "cvxpy"):  # refused now, and not after minutes
        needed(library)
    pyplot()
    target: Path = options.output
    if target.exists() or not target.absolute().parent.is_dir():
        raise ValidationRefused(
            f"--output: got {target}, allowed a folder that is not there yet, in one that is"
        )
    parts = target.with_name(f".{target.name}.parts")
    try:
        found = _refined(parts, options)
        _put(found, target, options)
    except OSError as error:
        raise ValidationRefused(f"{target}: cannot be written: {error.strerror}") from None
    shutil.rmtree(parts, ignore_errors=True)
    for line in report.lines(found):
        say(line)
    say(f"{target}: report.html, twin.yaml, plant.yaml")
    return OK


def _refined(parts: Path, options: argparse.Namespace) -> Refinement:
    """Do what is not in a folder of parts yet."""
    plant, twin = CellConfig.from_yaml(options.plant), CellConfig.from_yaml(options.twin)
    plan = RefinementPlan(
        tasks=sorted(set(options.task or (1, 2, 3, 4))),
        laws=options.law or (),
        seconds=options.seconds,
        repeats=options.repeats,
        rounds=options.rounds,
        evaluations=options.evaluations,
        seed=options.seed,
        recover=options.recover,
    )
    motions = {}
    for text in options.motion:
        arm, _, path = text.partition("=")
        if arm not in plant.arms or not path:
            raise ValidationRefused(
                f"--motion: got {text!r}, allowed ARM=CSV with one of {', '.join(plant.arms)}"
            )
        motions[arm] = read_motion(Path(path), arm, plant.arms[arm])
    if options.again:
        shutil.rmtree(parts, ignore_errors=True)
    before, found = set(parts.glob("*")), None
    try:
        found = refine(plant, twin, parts, plan, motions, complain)
        return found
    finally:
        if found is None and set(parts.glob("*")) - before:
            complain(
                f"refine: what is done is kept in {parts}: the same command goes on with it, "
                "--again begins anew"
            )


def _put(found: Refinement, target: Path, options: argparse.Namespace) -> None:
    """Write the folder, whole or not at all."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        _write(found, partial, options)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(found: Refinement, folder: Path, options: argparse.Namespace) -> None:
    """Write the report, and the cells with what was found."""
    about = {"plant": options.plant, "twin": options.twin, "seconds of each task": options.seconds,
             "repeats": options.repeats, "seed": options.seed}  # fmt: skip
    (folder / "report.html").write_text(report.page(found, about), encoding="utf-8")
    (folder / "report.json").write_text(report.numbers(found, about), encoding="utf-8")
    files: Mapping[str, str] = {arm: f"robot_{arm}.yaml" for arm in found.best.files}
    for arm, name in files.items():
        shutil.copyfile(found.best.files[arm], folder / name)
    layer = body_layer(files)
    if found.best.surface.values:
        layer["objects"] = {TABLE: dict(found.best.surface.values)}
    for name, source, change in (
        ("twin.yaml", options.twin, layer),
        ("plant.yaml", options.plant, law_layer(files)),
    ):
        head = f"# {Path(source).name} with what multipanda refine has found."
        (folder / name).write_text(changed_text(source, change, head), encoding="utf-8")
        CellConfig.from_yaml(folder / name)
