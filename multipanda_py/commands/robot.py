# SPDX-License-Identifier: Apache-2.0
"""Make an arm of one's own from its description."""

from __future__ import annotations

import argparse

from multipanda_py.commands import robot_import

SUMMARY = "Draft what a URDF or MJCF lacks of an arm: multipanda robot import FILE."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    verb = verbs.add_parser("import", help=robot_import.SUMMARY, description=robot_import.SUMMARY)
    robot_import.add_arguments(verb)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return robot_import.run(options)
