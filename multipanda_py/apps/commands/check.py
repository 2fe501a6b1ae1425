# SPDX-License-Identifier: Apache-2.0
"""Check cell files and report every fault."""

from __future__ import annotations

import argparse

from multipanda_py.apps.commands.command_line import FAILED, OK, complain, print_line
from multipanda_py.cell.checks import notes_of, unread_sections
from multipanda_py.config.arm_residual import check_residuals
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError

SUMMARY = "Check cell files and report everything that is wrong with them."
DETAILS = """Nothing is simulated. For arms with compliant actuators, the motor stops are compared
with the joint limits, without the weight of the arm. The start of a cell
also checks that the motors carry the arm at its start configuration. At other configurations this
is noticed only when a motor meets a stop."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = DETAILS
    parser.add_argument("files", nargs="+", metavar="FILE", help="cell file")


def run(options: argparse.Namespace) -> int:
    """Print one line per valid file, with notes, and one line per fault of an invalid file."""
    code = OK
    for path in options.files:
        try:
            config = CellConfig.from_yaml(path)
            check_residuals(config)
            print_line(f"{path}: ok: {summary_of(config)}")
            for sentence in (*unread_sections(path), *notes_of(config)):
                print_line(f"{path}: note: {sentence}")
        except ConfigurationError as error:
            code = FAILED
            for fault in error.faults:
                complain(fault)
    return code


def summary_of(config: CellConfig) -> str:
    """Return one line that describes the parts of a cell."""
    arms = ", ".join(f"{name} {arm.robot.name} {arm.backend}" for name, arm in config.arms.items())
    declared = [instance for instance in config.instances() if instance.type != "hold"]
    absent = sum(not obj.present for obj in config.objects.values())
    parts = [
        f"{count(len(config.arms), 'arm')} ({arms})",
        count(len(declared), "controllet"),
        count(len(config.objects), "object") + (f" ({absent} absent)" if absent else ""),
        f"active: {', '.join(config.active) or 'hold'}",
    ]
    return ", ".join(parts)


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
