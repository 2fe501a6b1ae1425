# SPDX-License-Identifier: Apache-2.0
"""What is done with compliant actuators, a verb a file."""

from __future__ import annotations

import argparse

from multipanda_py.commands.actuators_identify import IDENTIFY
from multipanda_py.commands.actuators_validate import VALIDATE
from multipanda_py.commands.options import add_verbs, run_verb

SUMMARY = "Springs of compliant actuators: identify FILE finds them, validate shows them at work."
VERBS = {"identify": IDENTIFY, "validate": VALIDATE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(options)
