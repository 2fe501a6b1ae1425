# SPDX-License-Identifier: Apache-2.0
"""Commands that check cell files, this machine and its network links to robots."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from multipanda_py.apps.commands.command_line import FAILED, OK, Verb, complain, print_line
from multipanda_py.cell.checks import notes_of, unread_sections
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.realtime.system.checks import Finding, examine_link, examine_machine
from multipanda_py.robots.residual.runtime import residual_of

DETAILS = """Nothing is simulated. For arms with compliant actuators, the motor stops are compared
with the joint limits, without the weight of the arm. The start of a cell
also checks that the motors carry the arm at its start configuration. At other configurations this
is noticed only when a motor meets a stop."""


def _add_check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = DETAILS
    parser.add_argument("files", nargs="+", metavar="FILE", help="cell file")


def run_check(options: argparse.Namespace) -> int:
    """Print a summary and warnings of each valid cell file, and all errors of each invalid one."""
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
    """Return a line with the arms, controllets and objects of a cell."""
    arms = ", ".join(f"{name} {arm.robot.name} {arm.backend}" for name, arm in config.arms.items())
    declared = [instance for instance in config.instances() if instance.type != "hold"]
    absent = sum(not obj.present for obj in config.objects.values())
    parts = [
        f"{_count(len(config.arms), 'arm')} ({arms})",
        _count(len(declared), "controllet"),
        _count(len(config.objects), "object") + (f" ({absent} absent)" if absent else ""),
        f"active: {', '.join(config.active) or 'hold'}",
    ]
    return ", ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def check_residuals(config: CellConfig) -> None:
    """Check that the residuals of a cell (learned torque corrections) exist and fit their arms.

    Raises:
        ConfigurationError: A residual is missing or does not fit; the message lists all errors.
    """
    faults: list[str] = []
    for arm in describe_arms(config):
        for use, file in config.arms[arm.name].residual.model_dump().items():
            try:
                if file:
                    residual_of(arm, use, file, 1.0 / config.cell.rate)
            except ConfigurationError as error:
                faults += error.faults
    for name, law in config.controllets.items():
        faults += [
            f"controllets.{name}.features: residual: arm {arm} has no residual file. Set "
            f"arms.{arm}.residual.torque, or remove the feature"
            for arm in law.arms or config.arms
            if "residual" in (law.features or ()) and not config.arms[arm].residual.torque
        ]
    if faults:
        raise ConfigurationError(*faults)


def _add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "robots", nargs="*", metavar="IP_OR_FILE",
        help="addresses of robots, or cell files with such addresses",
    )  # fmt: skip


def _run_doctor(options: argparse.Namespace) -> int:
    failed = False
    for finding in _findings(options.robots):
        print_line(f"[{'ok' if finding.ok else '!!'}] {finding.name}: {finding.value}")
        if not finding.ok:
            print_line(f"     {finding.fix}")
            failed = failed or finding.required
    return FAILED if failed else OK


def _findings(robots: list[str]) -> Iterator[Finding]:
    yield from examine_machine()
    for robot in robots:
        if Path(robot).suffix not in (".yaml", ".yml"):
            yield from examine_link(robot)
            continue
        for arm in CellConfig.from_yaml(robot).arms.values():
            if arm.robot_ip:
                yield from examine_link(arm.robot_ip)


COMMANDS = {
    "check": Verb(
        "Check cell files and report everything that is wrong with them.",
        _add_check_arguments,
        run_check,
    ),
    "doctor": Verb(
        "Check this machine and its network links to robots, and report how to fix faults.",
        _add_doctor_arguments,
        _run_doctor,
    ),
}
