# SPDX-License-Identifier: Apache-2.0
"""Learn what a plant does besides its twin."""

from __future__ import annotations

import argparse

from multipanda_py.commands.options import add_verbs, run_verb
from multipanda_py.commands.residual_evaluate import EVALUATE
from multipanda_py.commands.residual_export import EXPORT
from multipanda_py.commands.residual_node import NODE
from multipanda_py.commands.residual_train import TRAIN

SUMMARY = (
    "Learn what a plant does besides its twin: multipanda residual train|evaluate|export|node."
)
VERBS = {"train": TRAIN, "evaluate": EVALUATE, "export": EXPORT, "node": NODE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    """Run the verb."""
    return run_verb(options)
