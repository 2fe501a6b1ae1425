# SPDX-License-Identifier: Apache-2.0
"""Check this machine and its network links to robots, and report how to fix faults."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from multipanda_py.apps.commands.command_line import FAILED, OK, print_line
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.realtime.system.checks import Finding, examine_link, examine_machine

SUMMARY = "Check this machine and its network links to robots, and report how to fix faults."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "robots", nargs="*", metavar="IP_OR_FILE",
        help="addresses of robots, or cell files with such addresses",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Print one line per finding; return failure only if a real arm requires it."""
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
