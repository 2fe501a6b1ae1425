# SPDX-License-Identifier: Apache-2.0
"""Do the experiments of the compliant actuators' paper, and say what holds."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.commands.options import Verb
from multipanda_py.commands.output import FAILED, OK, check_output, complain, say
from multipanda_py.extras import pyplot
from multipanda_py.machine.interruption import end_in_order

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
    from multipanda_py.spring_validation import EXPERIMENTS
    from multipanda_py.spring_validation.page import write_page

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
