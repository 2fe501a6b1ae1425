# SPDX-License-Identifier: Apache-2.0
"""Write the MoveIt 2 configuration of a cell."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.apps.commands.command_line import OK, print_line
from multipanda_py.config.cell_file import CellConfig

SUMMARY = "Write the MoveIt 2 configuration of a cell: SRDF, limits, planners, controllers."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="CELL", help="cell file")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FOLDER", help="output folder; default moveit_<cell>"
    )


def run(options: argparse.Namespace) -> int:
    """Write the files and print the planning groups."""
    # The collision library is slow to load, so only this command imports it.
    from multipanda_py.planning.moveit_files import moveit_files
    from multipanda_py.planning.moveit_srdf import Groups

    config = CellConfig.from_yaml(options.file)
    folder = options.output or Path(f"moveit_{config.cell.name}")
    groups = Groups(config)
    hands = [groups.hand_group(arm) for arm in groups.arms.values() if arm.hand]
    print_line(f"groups: {', '.join([*groups.arms, *groups.sets, *hands])}")
    files = moveit_files(config)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    print_line(f"{folder}: {', '.join(files)}")
    return OK
