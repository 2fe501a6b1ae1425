# SPDX-License-Identifier: Apache-2.0
"""Learn what a plant does besides its twin."""

from __future__ import annotations

import argparse

from multipanda_py.commands import (
    residual_evaluate,
    residual_export,
    residual_node,
    residual_train,
)

SUMMARY = (
    "Learn what a plant does besides its twin: multipanda residual train|evaluate|export|node."
)
_VERBS = {
    "train": residual_train,
    "evaluate": residual_evaluate,
    "export": residual_export,
    "node": residual_node,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in _VERBS.items():
        verb = verbs.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(verb)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    code: int = _VERBS[options.verb].run(options)
    return code
