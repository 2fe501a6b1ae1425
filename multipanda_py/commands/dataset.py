# SPDX-License-Identifier: Apache-2.0
"""What is done with recorded episodes, a verb a file."""

from __future__ import annotations

import argparse

from multipanda_py.commands.dataset_check import CHECK
from multipanda_py.commands.dataset_replay import REPLAY
from multipanda_py.commands.dataset_stats import STATS
from multipanda_py.commands.options import add_verbs, run_verb

SUMMARY = "Episodes for learning: check FOLDER, stats FOLDER, replay FOLDER."
VERBS = {"check": CHECK, "stats": STATS, "replay": REPLAY}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(options)
