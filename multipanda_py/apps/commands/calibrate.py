# SPDX-License-Identifier: Apache-2.0
"""Calibrate a simulated twin to a reference robot in several rounds."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from pathlib import Path

from multipanda_py.apps.commands.command_line import (
    OK,
    add_recover,
    add_repeats,
    add_seconds,
    complain,
    count,
    print_line,
    seed,
)
from multipanda_py.apps.commands.excite import read_motion
from multipanda_py.apps.commands.twin import add_force_controllets, add_tasks
from multipanda_py.config.cell_file import CellConfig, changed_text
from multipanda_py.exceptions import ValidationRejected
from multipanda_py.identification.calibration import (
    Calibration,
    CalibrationPlan,
    calibrate,
    report,
)
from multipanda_py.identification.calibration.contact_parameters import TABLE
from multipanda_py.identification.calibration.improvement import body_layer, law_layer
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import needed, pyplot

SUMMARY = "Calibrate a twin: validate, identify, update and repeat until it improves no further."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plant", metavar="CELL", required=True,
        help="cell file of the reference robot, simulated or real; its arms MOVE",
    )  # fmt: skip
    parser.add_argument(
        "--twin", metavar="CELL", required=True, help="cell file of the simulated twin"
    )
    parser.add_argument(
        "-o", "--output", metavar="FOLDER", type=Path, required=True,
        help="new folder for report.html and .json, one file per arm, and twin.yaml and "
        "plant.yaml that use them",
    )  # fmt: skip
    add_tasks(parser, "task of multipanda validate; may be repeated; default 1 to 4")
    add_force_controllets(
        parser, "force controllet for tasks 3 and 4; may be repeated; default ufic"
    )
    add_seconds(parser, 4.0)
    add_repeats(parser, 1)
    parser.add_argument(
        "--rounds", type=count, default=3, metavar="N", help="maximum number of rounds, default 3"
    )
    parser.add_argument(
        "--motion", metavar="ARM=CSV", action="append", default=[],
        help="motion of multipanda excite for every round; without it each round searches for one",
    )  # fmt: skip
    parser.add_argument(
        "--evaluations",
        type=count,
        default=600,
        help="number of motions to try in each search, default 600",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of noise and search, default 0")
    parser.add_argument(
        "--restart", action="store_true",
        help="start from scratch; without it, an interrupted command continues from its results",
    )  # fmt: skip
    add_recover(parser)


def run(options: argparse.Namespace) -> int:
    """Calibrate the twin and write the output folder."""
    end_in_order()
    # The command fails now, not after minutes, if a library is missing.
    for library in ("scipy.optimize", "cvxpy"):
        needed(library)
    pyplot()
    target: Path = options.output
    if target.exists() or not target.absolute().parent.is_dir():
        raise ValidationRejected(
            f"--output: {target} must be a new folder in an existing folder. Choose another path."
        )
    parts = target.with_name(f".{target.name}.parts")
    try:
        result = _calibrate_or_continue(parts, options)
        _write_atomically(result, target, options)
    except OSError as error:
        raise ValidationRejected(f"{target}: cannot be written: {error.strerror}") from None
    shutil.rmtree(parts, ignore_errors=True)
    for line in report.lines(result):
        print_line(line)
    print_line(f"{target}: report.html, twin.yaml, plant.yaml")
    return OK


def _calibrate_or_continue(parts: Path, options: argparse.Namespace) -> Calibration:
    plant, twin = CellConfig.from_yaml(options.plant), CellConfig.from_yaml(options.twin)
    plan = CalibrationPlan(
        tasks=sorted(set(options.task or (1, 2, 3, 4))),
        laws=options.controllet or (),
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
            raise ValidationRejected(
                f"--motion: got {text!r}, allowed ARM=CSV with one of {', '.join(plant.arms)}"
            )
        motions[arm] = read_motion(Path(path), arm, plant.arms[arm])
    if options.restart:
        shutil.rmtree(parts, ignore_errors=True)
    before, result = set(parts.glob("*")), None
    try:
        result = calibrate(plant, twin, parts, plan, motions, complain)
        return result
    finally:
        if result is None and set(parts.glob("*")) - before:
            complain(
                f"calibrate: finished parts are kept in {parts}. Repeat the command to continue, "
                "or add --restart to start from scratch."
            )


def _write_atomically(result: Calibration, target: Path, options: argparse.Namespace) -> None:
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir()
        _write(result, partial, options)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write(result: Calibration, folder: Path, options: argparse.Namespace) -> None:
    about = {"plant": options.plant, "twin": options.twin, "seconds of each task": options.seconds,
             "repeats": options.repeats, "seed": options.seed}  # fmt: skip
    (folder / "report.html").write_text(report.page(result, about), encoding="utf-8")
    (folder / "report.json").write_text(report.numbers(result, about), encoding="utf-8")
    files: Mapping[str, str] = {arm: f"robot_{arm}.yaml" for arm in result.best.files}
    for arm, name in files.items():
        shutil.copyfile(result.best.files[arm], folder / name)
    layer = body_layer(files)
    if result.best.surface.values:
        layer["objects"] = {TABLE: dict(result.best.surface.values)}
    for name, source, change in (
        ("twin.yaml", options.twin, layer),
        ("plant.yaml", options.plant, law_layer(files)),
    ):
        head = f"# {Path(source).name} with the parameters that multipanda calibrate identified."
        (folder / name).write_text(changed_text(source, change, head), encoding="utf-8")
        CellConfig.from_yaml(folder / name)
