# SPDX-License-Identifier: Apache-2.0
"""Train a network of residuals on paired motions."""

from __future__ import annotations

import argparse
from pathlib import Path

from multipanda_py.commands.options import Verb, arm_of, seed
from multipanda_py.commands.output import OK, check_output, complain, say
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.extras import needed
from multipanda_py.machine.interruption import end_in_order
from multipanda_py.residual.body_difference import BodyDifference
from multipanda_py.residual.network import KINDS
from multipanda_py.residual.weights_file import load_residual
from multipanda_py.residual_training.curves import draw_history
from multipanda_py.residual_training.fit_bodies import fit_bodies
from multipanda_py.residual_training.paired_motions import PairedMotions, read_pairs
from multipanda_py.residual_training.settings import TrainingSettings
from multipanda_py.residual_training.train import check_begin, train

_USUAL = TrainingSettings()


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pairs", metavar="PAIRS", type=Path, help="pairs.parquet")
    parser.add_argument(
        "--kind", choices=KINDS, default=_USUAL.kind,
        help="real_time (default) beside a loop, precise for whole motions",
    )  # fmt: skip
    for name, kind, text in (
        ("units", int, "of each layer and direction, default three a joint"),
        ("epochs", int, f"at most, default {_USUAL.epochs}"),
        ("batch", int, f"intervals of a step, default {_USUAL.batch}"),
        ("rate", float, f"of learning at first, default {_USUAL.rate:g}"),
        ("decay", float, f"of weights, default {_USUAL.decay:g}"),
        ("patience", int, f"epochs without gain that end it, default {_USUAL.patience}"),
        ("share", float, f"of the shortest motion, for intervals, default {_USUAL.share:g}"),
        ("dropout", float, "share of samples that are left out, default 0"),
    ):
        parser.add_argument(
            f"--{name}", type=kind, default=getattr(_USUAL, name), metavar="N", help=text
        )
    parser.add_argument(
        "--weights", type=float, nargs=3, default=_USUAL.weights, metavar=("Q", "DQ", "TAU"),
        help="of errors of positions, velocities and torques, default {:g} {:g} {:g}".format(
            *_USUAL.weights
        ),
    )  # fmt: skip
    parser.add_argument(
        "--bodies", metavar="CELL",
        help="the twin's cell file: what differing bodies explain is fitted first",
    )  # fmt: skip
    parser.add_argument("--arm", help="of that cell; the only one if none is named")
    parser.add_argument("--seed", type=seed, default=0, help="of weights, intervals, dropout")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch, default 1")
    parser.add_argument("--begin", metavar="FILE", type=Path, help="weights to begin with")
    parser.add_argument("--curves", metavar="PNG", type=Path, help="of the loss by epoch")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True,
        help="npz; the best so far is in it all the time",
    )  # fmt: skip


def _run_train(options: argparse.Namespace) -> int:
    """Train."""
    end_in_order()
    check_output(options.output, ".npz", beside=[options.pairs])
    if options.curves is not None:
        check_output(options.curves, ".png", ".svg", ".pdf", option="--curves")
    if not 1 <= options.threads <= 256:
        raise ConfigurationError(f"--threads: got {options.threads}, allowed 1 to 256")
    torch = needed("torch")
    torch.set_num_threads(options.threads)
    pairs = read_pairs(options.pairs)
    begin = load_residual(options.begin) if options.begin else None
    settings = TrainingSettings(
        options.kind, options.units, options.epochs, options.batch, options.rate, options.decay,
        options.patience, options.share, options.dropout, tuple(options.weights),
        seed=options.seed,
    )  # fmt: skip
    if begin is not None:
        check_begin(begin, pairs, settings)
    bodies = _bodies(options, pairs)
    found, history = train(
        pairs, settings, complain, lambda best: best.save(options.output), begin, bodies
    )
    found.save(options.output)
    if options.curves is not None:
        draw_history(history, options.curves)
    best = min(history.validation)
    say(f"{options.output}: {len(history.train)} epochs, {best:.3f} of the residual is left")
    return OK


def _bodies(options: argparse.Namespace, pairs: PairedMotions) -> BodyDifference | None:
    """Return what differing bodies explain, if a cell was named."""
    if options.bodies is None:
        return None
    config = CellConfig.from_yaml(options.bodies)
    name = arm_of(config.arms, options.arm)
    return fit_bodies(pairs, describe_arm(name, config.arms[name]))


TRAIN = Verb(
    "Train a network on the table of multipanda pairs, into one file that runs without torch.",
    _add_train_arguments,
    _run_train,
)
