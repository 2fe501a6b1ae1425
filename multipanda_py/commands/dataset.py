# SPDX-License-Identifier: Apache-2.0
"""What is done with recorded episodes, a verb a file."""

from __future__ import annotations

import argparse

from multipanda_py.commands import dataset_check, dataset_replay, dataset_stats

SUMMARY = "Episodes for learning: check FOLDER, stats FOLDER, replay FOLDER."
VERBS = {"check": dataset_check, "stats": dataset_stats, "replay": dataset_replay}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in VERBS.items():
        verb = verbs.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(verb)
        verb.set_defaults(verb_function=module.run)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    code: int = options.verb_function(options)
    return code
