# SPDX-License-Identifier: Apache-2.0
"""Identify and validate compliant actuators: command ``multipanda actuators``."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from multipanda_py import registry
from multipanda_py.apps.commands.command_line import (
    FAILED,
    OK,
    Verb,
    add_verbs,
    check_output,
    complain,
    print_line,
    run_verb,
    write_whole,
)
from multipanda_py.exceptions import IdentificationRejected
from multipanda_py.identification.actuators.springs import SpringEstimate, identify_springs
from multipanda_py.parameters import specs_of
from multipanda_py.realtime.recording.log_reader import TABLE_SUFFIXES, table_of
from multipanda_py.realtime.recording.plots import SUFFIXES
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import pyplot
from multipanda_py.robots.measured_files import actuator_from, actuator_text


def _add_identify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path,
        help="CSV or Parquet with columns tau [Nm], and q, theta_1, theta_2 [rad], or deflection "
        "and preset; for several joints, a column joint names the joint of each sample",
    )  # fmt: skip
    parser.add_argument(
        "--type", metavar="KIND", required=True, help="actuator type; see multipanda list"
    )
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="YAML file to write")
    parser.add_argument(
        "--fit", metavar="NAME", nargs="+", default=[],
        help="parameters to identify; by default those that multipanda list names",
    )  # fmt: skip
    parser.add_argument(
        "--fix", metavar="NAME=VALUE", type=_fixed, action="append", default=[],
        help="known value of a parameter; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--offset", action="store_true", help="identify an offset of the torque sensor too"
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="plot data and fitted springs")


def _run_identify(options: argparse.Namespace) -> int:
    if options.output is not None:
        check_output(options.output)
    if options.plot is not None:
        check_output(options.plot, *SUFFIXES, option="--plot")
        pyplot()  # Fails now, not after the fit, if matplotlib is missing.
    kind = registry.find("actuators", options.type)
    parts = _columns_by_joint(options.file)
    estimates = [
        identify_springs(
            options.type, columns, names=options.fit, fixed=dict(options.fix),
            offset=options.offset, path=location,
        )
        for location, columns in parts.items()
    ]  # fmt: skip
    units = {spec.name: spec.unit for spec in specs_of(kind.Params)}
    for path, one in zip(parts, estimates):
        _report(path, one, units)
    if options.output is not None:
        text = actuator_text(
            options.type, _spring_params(estimates), _notes(options.file, estimates)
        )
        write_whole(options.output, text)
        actuator_from(options.output, len(estimates))
        print_line(
            f"{options.output}: written: type and params of an actuator group of a cell file"
        )
    if options.plot is not None:
        from multipanda_py.identification.plots import draw_springs

        draw_springs(estimates, parts, options.plot)
        print_line(f"{options.plot}: written: torques over deflections")
    return OK


def _fixed(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not name or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed NAME=VALUE with a finite number")
    return name, number


def _columns_by_joint(path: Path) -> dict[str, dict[str, Any]]:
    """Return the columns of a table of measurements, by path and joint name."""
    if path.suffix.lower() not in TABLE_SUFFIXES:
        raise IdentificationRejected(
            f"{path}: not a table. Use a {' or '.join(TABLE_SUFFIXES)} file."
        )
    table = table_of(path)
    table.columns = [str(column).strip() for column in table.columns]
    if not len(table):
        raise IdentificationRejected(f"{path}: has no rows. Provide one row for each sample.")
    if "joint" not in table.columns:
        return {str(path): {name: table[name].to_numpy() for name in table.columns}}
    return {
        f"{path}: joint {joint:g}" if isinstance(joint, float) else f"{path}: joint {joint}": {
            name: part[name].to_numpy() for name in part.columns
        }
        for joint, part in table.groupby("joint", sort=True)
    }


def _report(path: str, result: SpringEstimate, units: dict[str, str]) -> None:
    rmse = ", ".join(f"{name} {value:.3g} Nm" for name, value in result.rmse.items())
    print_line(
        f"{path}: {result.samples} samples, {result.independent:.0f} of them independent; springs "
        f"explain {100.0 * result.explained_variance:.2f} % of the torque variance; RMSE {rmse}"
    )
    for name, value in result.values.items():
        print_line(
            f"  {name:12} {value:12.5g} +- {result.deviations[name]:<10.2g} {units[name]}".rstrip()
        )
    if result.offset is not None:
        print_line(f"  {'the offset':12} {result.offset[0]:12.5g} +- {result.offset[1]:<10.2g} Nm")


def _round_to_deviation(value: float, deviation: float) -> float:
    digits = 6 if deviation <= 0.0 else math.ceil(math.log10(abs(value) / deviation)) + 3
    return float(f"{value:.{min(max(digits, 4), 12)}g}")


def _spring_params(estimates: list[SpringEstimate]) -> dict[str, float | list[float]]:
    each = {
        name: [
            _round_to_deviation(one.params[name], one.deviations.get(name, 0.0))
            if name in one.deviations
            else one.params[name]
            for one in estimates
        ]
        for name in estimates[0].params
    }
    return {name: values[0] if len(set(values)) == 1 else values for name, values in each.items()}


def _notes(path: Path, estimates: list[SpringEstimate]) -> dict[str, Any]:
    def each(values: list[Any]) -> Any:
        return values[0] if len(values) == 1 else values

    def short(value: float) -> float:
        return float(f"{value:.4g}")

    notes: dict[str, Any] = {
        "data": str(path),
        "samples": each([one.samples for one in estimates]),
        "independent_samples": each([round(one.independent) for one in estimates]),
        "standard_deviations": {
            name: each([short(one.deviations[name]) for one in estimates])
            for name in estimates[0].deviations
        },
        "rmse_Nm": {
            name: each([short(one.rmse[name]) for one in estimates]) for name in estimates[0].rmse
        },
    }
    offsets = [short(one.offset[0]) for one in estimates if one.offset is not None]
    return {**notes, "torque_offset_Nm": each(offsets)} if offsets else notes


IDENTIFY = Verb(
    "Identify the springs of an actuator from torques and deflections, with their uncertainty.",
    _add_identify_arguments,
    _run_identify,
)


EXPERIMENT_NAMES = ("steps", "chirp", "horizontal", "vertical", "pushing", "learning")


def _add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("actuators.html"),
        help="report to write, with its numbers as JSON next to it; default actuators.html",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=EXPERIMENT_NAMES,
        help=f"run only this experiment: {', '.join(EXPERIMENT_NAMES)}; may be repeated",
    )  # fmt: skip


def _run_validate(options: argparse.Namespace) -> int:
    from multipanda_py.identification.actuators.experiments import EXPERIMENTS
    from multipanda_py.identification.actuators.report import write_page

    end_in_order()
    target = check_output(options.output, ".html")
    pyplot()  # Fails now, not after a minute, if matplotlib is missing.
    chosen, result = (
        [name for name in EXPERIMENT_NAMES if name in (options.only or EXPERIMENT_NAMES)],
        [],
    )
    for k, name in enumerate(chosen):
        complain(f"{k + 1} of {len(chosen)}: {name}")
        result.append(EXPERIMENTS[name](options.quick))
        for check in result[-1].checks:
            print_line(f"{'holds' if check.holds else 'FAILS'}  {check.statement}: {check.found}")
    beside = write_page(result, target, options.quick)
    print_line(f"{target}, {beside}")
    return OK if all(one.holds for one in result) else FAILED


VALIDATE = Verb(
    "Run the experiments that validate compliant actuators, and compare them with their paper.",
    _add_validate_arguments,
    _run_validate,
)


SUMMARY = "Identify springs of compliant actuators from data, or run their validation experiments."
VERBS = {"identify": IDENTIFY, "validate": VALIDATE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    return run_verb(options)
