# SPDX-License-Identifier: Apache-2.0
"""Make an arm of one's own from its description."""

from __future__ import annotations

import argparse

from multipanda_py.commands.options import add_verbs, run_verb
from multipanda_py.commands.robot_import import IMPORT

SUMMARY = "Draft what a URDF or MJCF lacks of an arm: multipanda robot import FILE."
VERBS = {"import": IMPORT}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(options)
