# SPDX-License-Identifier: Apache-2.0
"""Say what a residual gains on motions that it was not trained on."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from multipanda_py.commands.options import Verb
from multipanda_py.commands.output import OK, check_output, say
from multipanda_py.machine.whole_file import replacing
from multipanda_py.residual.weights_file import load_residual
from multipanda_py.residual_training.curves import draw_torques
from multipanda_py.residual_training.evaluate import evaluate, table
from multipanda_py.residual_training.paired_motions import read_pairs


def _add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="of multipanda residual train")
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="pairs.parquet")
    parser.add_argument("--json", metavar="FILE", type=Path, help="the same numbers")
    parser.add_argument(
        "--no-bodies", action="store_true",
        help="the network alone, as for another robot, whose bodies differ otherwise",
    )  # fmt: skip
    parser.add_argument("--plot", metavar="PNG", type=Path, help="torques of a motion")


def _run_evaluate(options: argparse.Namespace) -> int:
    """Evaluate."""
    if options.json is not None:
        check_output(options.json, ".json", option="--json")
    if options.plot is not None:
        check_output(options.plot, ".png", ".svg", ".pdf", option="--plot")
    trained, pairs = load_residual(options.file), read_pairs(options.pairs)
    if options.no_bodies:
        trained = replace(trained, bodies=None)
    gains = evaluate(trained, pairs)
    if options.json is not None:
        rows = {
            gain.kind: {
                "motions": gain.motions,
                "before": gain.before.tolist(),
                "after": gain.after.tolist(),
            }
            for gain in gains
        }
        with replacing(options.json) as partial:
            partial.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if options.plot is not None:
        draw_torques(trained, pairs.of("test")[0], options.plot)
    say(table(gains))
    return OK


EVALUATE = Verb(
    "Say what a residual gains on the test's motions, joint by joint; needs no torch.",
    _add_evaluate_arguments,
    _run_evaluate,
)
