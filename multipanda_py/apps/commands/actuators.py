# SPDX-License-Identifier: Apache-2.0
"""What is done with compliant actuators, a verb a file."""

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
    run_verb,
    say,
    write_whole,
)
from multipanda_py.exceptions import IdentificationRefused
from multipanda_py.identification.actuators.springs import FoundSprings, identify_springs
from multipanda_py.parameters import specs_of
from multipanda_py.realtime.recording.log_reader import TABLES, table_of
from multipanda_py.realtime.recording.plots import SUFFIXES
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import pyplot
from multipanda_py.robots.measured_files import actuator_from, actuator_text


def _add_identify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path,
        help="CSV or Parquet with columns tau [Nm], and q, theta_1, theta_2 [rad], or deflection "
        "and preset; a column joint tells several joints apart",
    )  # fmt: skip
    parser.add_argument("--type", metavar="KIND", required=True, help="as in multipanda list")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="the YAML to write")
    parser.add_argument(
        "--fit", metavar="NAME", nargs="+", default=[],
        help="parameters to find; by default those that multipanda list says",
    )  # fmt: skip
    parser.add_argument(
        "--fix", metavar="NAME=VALUE", type=_fixed, action="append", default=[],
        help="a parameter that is known; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--offset", action="store_true", help="find an offset of the torque sensor too"
    )
    parser.add_argument("--plot", metavar="PNG", type=Path, help="draw data and springs")


def _run_identify(options: argparse.Namespace) -> int:
    """Identify joint by joint, say how well, and write the file, whole or not at all."""
    if options.output is not None:
        check_output(options.output)
    if options.plot is not None:
        check_output(options.plot, *SUFFIXES, option="--plot")
        pyplot()  # refused now, and not after the fit
    kind = registry.find("actuators", options.type)
    parts = _parts(options.file)
    found = [
        identify_springs(
            options.type, columns, names=options.fit, fixed=dict(options.fix),
            offset=options.offset, where=where,
        )
        for where, columns in parts.items()
    ]  # fmt: skip
    units = {spec.name: spec.unit for spec in specs_of(kind.Params)}
    for where, one in zip(parts, found):
        _report(where, one, units)
    if options.output is not None:
        text = actuator_text(options.type, _params(found), _notes(options.file, found))
        write_whole(options.output, text)
        actuator_from(options.output, len(found))
        say(f"{options.output}: type and params of a group of actuators in a cell file")
    if options.plot is not None:
        from multipanda_py.identification.plots import draw_springs

        draw_springs(found, parts, options.plot)
        say(f"{options.plot}: torques over deflections")
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


def _parts(path: Path) -> dict[str, dict[str, Any]]:
    """Return the columns of every joint of a table, by what messages call it.

    Raises:
        IdentificationRefused: If it is no table, or one without rows.
    """
    if path.suffix.lower() not in TABLES:
        raise IdentificationRefused(f"{path}: got no table, allowed {' or '.join(TABLES)}")
    table = table_of(path)
    table.columns = [str(column).strip() for column in table.columns]
    if not len(table):
        raise IdentificationRefused(f"{path}: got no rows, allowed one for each sample")
    if "joint" not in table.columns:
        return {str(path): {name: table[name].to_numpy() for name in table.columns}}
    return {
        f"{path}: joint {joint:g}" if isinstance(joint, float) else f"{path}: joint {joint}": {
            name: part[name].to_numpy() for name in part.columns
        }
        for joint, part in table.groupby("joint", sort=True)
    }


def _report(where: str, found: FoundSprings, units: dict[str, str]) -> None:
    rmse = ", ".join(f"{name} {value:.3g} Nm" for name, value in found.rmse.items())
    say(
        f"{where}: {found.samples} samples, {found.independent:.0f} of them independent; springs "
        f"tell {100.0 * found.told:.2f} % of the torque's variance; RMSE {rmse}"
    )
    for name, value in found.values.items():
        say(f"  {name:12} {value:12.5g} +- {found.deviations[name]:<10.2g} {units[name]}".rstrip())
    if found.offset is not None:
        say(f"  {'the offset':12} {found.offset[0]:12.5g} +- {found.offset[1]:<10.2g} Nm")


def _rounded(value: float, deviation: float) -> float:
    """Return a number with two digits more than are known."""
    digits = 6 if deviation <= 0.0 else math.ceil(math.log10(abs(value) / deviation)) + 3
    return float(f"{value:.{min(max(digits, 4), 12)}g}")


def _params(found: list[FoundSprings]) -> dict[str, float | list[float]]:
    """Return one number of each parameter, or one for each joint."""
    each = {
        name: [
            _rounded(one.params[name], one.deviations.get(name, 0.0))
            if name in one.deviations
            else one.params[name]
            for one in found
        ]
        for name in found[0].params
    }
    return {name: values[0] if len(set(values)) == 1 else values for name, values in each.items()}


def _notes(path: Path, found: list[FoundSprings]) -> dict[str, Any]:
    """Return what the file says of how the springs were found; a list has one for each joint."""

    def each(values: list[Any]) -> Any:
        return values[0] if len(values) == 1 else values

    def short(value: float) -> float:
        return float(f"{value:.4g}")

    notes: dict[str, Any] = {
        "data": str(path),
        "samples": each([one.samples for one in found]),
        "independent_samples": each([round(one.independent) for one in found]),
        "standard_deviations": {
            name: each([short(one.deviations[name]) for one in found])
            for name in found[0].deviations
        },
        "rmse_Nm": {
            name: each([short(one.rmse[name]) for one in found]) for name in found[0].rmse
        },
    }
    offsets = [short(one.offset[0]) for one in found if one.offset is not None]
    return {**notes, "torque_offset_Nm": each(offsets)} if offsets else notes


IDENTIFY = Verb(
    "Find the springs of an actuator from torques and deflections, with their uncertainty.",
    _add_identify_arguments,
    _run_identify,
)


NAMES = ("steps", "chirp", "horizontal", "vertical", "pushing", "learning")


def _add_validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=Path("actuators.html"),
        help="the report; its numbers are beside it as JSON. Default actuators.html",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=NAMES,
        help=f"one of {', '.join(NAMES)}; again for more. All if none is named",
    )  # fmt: skip


def _run_validate(options: argparse.Namespace) -> int:
    """Do them one after another, and write the report, whole or not at all."""
    from multipanda_py.identification.actuators.experiments import EXPERIMENTS
    from multipanda_py.identification.actuators.finding import write_page

    end_in_order()
    target = check_output(options.output, ".html")
    pyplot()  # refused now, and not after a minute
    chosen, found = [name for name in NAMES if name in (options.only or NAMES)], []
    for k, name in enumerate(chosen):
        complain(f"{k + 1} of {len(chosen)}: {name}")
        found.append(EXPERIMENTS[name](options.quick))
        for check in found[-1].checks:
            say(f"{'holds' if check.holds else 'FAILS'}  {check.statement}: {check.found}")
    beside = write_page(found, target, options.quick)
    say(f"{target}, {beside}")
    return OK if all(one.holds for one in found) else FAILED


VALIDATE = Verb(
    "Do the experiments by which compliant actuators were validated, beside their paper.",
    _add_validate_arguments,
    _run_validate,
)


SUMMARY = "Springs of compliant actuators: identify FILE finds them, validate shows them at work."
VERBS = {"identify": IDENTIFY, "validate": VALIDATE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(options)
