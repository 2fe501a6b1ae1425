# SPDX-License-Identifier: Apache-2.0
"""Train, evaluate and run a network for the residual between a robot and its simulated twin."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from multipanda_py.apps.commands.command_line import (
    OK,
    Verb,
    add_verbs,
    arm_of,
    check_output,
    complain,
    print_line,
    run_verb,
    seed,
)
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arm
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import replacing
from multipanda_py.identification.residual.evaluate import (
    draw_history,
    draw_torques,
    evaluate,
    table,
)
from multipanda_py.identification.residual.motions import PairedMotions, read_pairs
from multipanda_py.identification.residual.networks import TrainingSettings, carried, onnx_model
from multipanda_py.identification.residual.train import check_initial_weights, fit_bodies, train
from multipanda_py.realtime.system.child_process import module_command
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import needed, require
from multipanda_py.robots.residual.bodies import BodyDifference
from multipanda_py.robots.residual.network import KINDS
from multipanda_py.robots.residual.runtime import CorrectedStates
from multipanda_py.robots.residual.weights import load_residual


def _add_evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="file of multipanda residual train"
    )
    parser.add_argument(
        "pairs", metavar="PAIRS", type=Path, help="pairs.parquet of multipanda pairs"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the result as JSON too")
    parser.add_argument(
        "--no-bodies", action="store_true",
        help="evaluate the network without the body torques, as for a robot with other bodies",
    )  # fmt: skip
    parser.add_argument("--plot", metavar="PNG", type=Path, help="plot the torques of one motion")


def _run_evaluate(options: argparse.Namespace) -> int:
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
        draw_torques(trained, pairs.select("test")[0], options.plot)
    print_line(table(gains))
    return OK


EVALUATE = Verb(
    "Print how much a residual reduces the error of the test motions, joint by joint; no torch.",
    _add_evaluate_arguments,
    _run_evaluate,
)


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="file of multipanda residual train"
    )
    parser.add_argument(
        "--no-bodies", action="store_true",
        help="export the network alone; the program that runs it adds the body torques",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="onnx")


def _run_export(options: argparse.Namespace) -> int:
    check_output(options.output, ".onnx", beside=[options.file])
    trained = load_residual(options.file)
    if options.no_bodies:
        trained = replace(trained, bodies=None)
    model = onnx_model(trained)
    with replacing(options.output) as partial:
        partial.write_bytes(model.SerializeToString())
    names = ", ".join(f"{name} ({size})" for name, size in carried(trained).items())
    print_line(f"{options.output}: state ({3 * len(trained.joints)}) at {trained.rate:g} Hz, "
        f"kept from call to call: {names}")  # fmt: skip
    return OK


EXPORT = Verb(
    "Write a real-time residual as an ONNX model, for programs in other languages.",
    _add_export_arguments,
    _run_export,
)


def _add_node_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", type=Path, help="file of multipanda residual train"
    )
    parser.add_argument(
        "--prefix",
        default="",
        help="prefix of the joint names, for messages with joints of several arms",
    )
    parser.add_argument(
        "--remap", action="append", default=[], metavar="FROM:=TO",
        help="ROS remapping of a topic; may be repeated",
    )  # fmt: skip


def _run_node(options: argparse.Namespace) -> NoReturn:
    # Errors in the file are reported before the node starts.
    CorrectedStates(load_residual(options.file))
    require("rclpy", "sensor_msgs", "std_msgs")
    remaps = [word for remap in options.remap for word in ("-r", remap)]
    command = module_command(
        "multipanda_py.ros.node.residual_node", str(options.file), options.prefix, *remaps
    )
    sys.stdout.flush()
    os.execv(command[0], command)


NODE = Verb(
    "Run a ROS node: joint_states in, corrected/joint_states and residual/confidence out.",
    _add_node_arguments,
    _run_node,
)


_DEFAULT_SETTINGS = TrainingSettings()


def _add_train_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pairs", metavar="PAIRS", type=Path, help="pairs.parquet of multipanda pairs"
    )
    parser.add_argument(
        "--kind", choices=KINDS, default=_DEFAULT_SETTINGS.kind,
        help="real_time (default): runs with a control loop; precise: needs whole motions",
    )  # fmt: skip
    for name, kind, text in (
        ("units", int, "number of units of each layer and direction, default three per joint"),
        ("epochs", int, f"maximum number of epochs, default {_DEFAULT_SETTINGS.epochs}"),
        (
            "batch",
            int,
            f"number of intervals per training step, default {_DEFAULT_SETTINGS.batch}",
        ),
        ("rate", float, f"initial learning rate, default {_DEFAULT_SETTINGS.rate:g}"),
        ("decay", float, f"weight decay, default {_DEFAULT_SETTINGS.decay:g}"),
        (
            "patience",
            int,
            f"epochs without improvement before training ends, default "
            f"{_DEFAULT_SETTINGS.patience}",
        ),
        (
            "share",
            float,
            f"interval length as fraction of the shortest motion, default "
            f"{_DEFAULT_SETTINGS.share:g}",
        ),
        ("dropout", float, "fraction of input samples dropped in training, default 0"),
    ):
        parser.add_argument(
            f"--{name}",
            type=kind,
            default=getattr(_DEFAULT_SETTINGS, name),
            metavar="N",
            help=text,
        )
    parser.add_argument(
        "--weights", type=float, nargs=3, default=_DEFAULT_SETTINGS.weights,
        metavar=("Q", "DQ", "TAU"),
        help="loss weights of positions, velocities and torques, default {:g} {:g} {:g}".format(
            *_DEFAULT_SETTINGS.weights
        ),
    )  # fmt: skip
    parser.add_argument(
        "--bodies", metavar="CELL",
        help="cell file of the twin; fits differences of its bodies before the network",
    )  # fmt: skip
    parser.add_argument("--arm", help="arm of that cell; not needed for one arm")
    parser.add_argument(
        "--seed", type=seed, default=0, help="seed of weights, intervals and dropout"
    )
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="threads of torch, default 1"
    )
    parser.add_argument(
        "--initial-weights", metavar="FILE", type=Path, help="residual whose weights to start from"
    )
    parser.add_argument("--curves", metavar="PNG", type=Path, help="plot the loss over epochs")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True,
        help="npz file to write; during training it has the best network so far",
    )  # fmt: skip


def _run_train(options: argparse.Namespace) -> int:
    end_in_order()
    check_output(options.output, ".npz", beside=[options.pairs])
    if options.curves is not None:
        check_output(options.curves, ".png", ".svg", ".pdf", option="--curves")
    if not 1 <= options.threads <= 256:
        raise ConfigurationError(f"--threads: got {options.threads}, allowed 1 to 256")
    torch = needed("torch")
    torch.set_num_threads(options.threads)
    pairs = read_pairs(options.pairs)
    start = load_residual(options.initial_weights) if options.initial_weights else None
    settings = TrainingSettings(
        options.kind, options.units, options.epochs, options.batch, options.rate, options.decay,
        options.patience, options.share, options.dropout, tuple(options.weights),
        seed=options.seed,
    )  # fmt: skip
    if start is not None:
        check_initial_weights(start, pairs, settings)
    bodies = _body_difference(options, pairs)
    result, history = train(
        pairs, settings, complain, lambda best: best.save(options.output), start, bodies
    )
    result.save(options.output)
    if options.curves is not None:
        draw_history(history, options.curves)
    best = min(history.validation)
    print_line(
        f"{options.output}: {len(history.train)} epochs, {best:.3f} of the residual remains"
    )
    return OK


def _body_difference(options: argparse.Namespace, pairs: PairedMotions) -> BodyDifference | None:
    if options.bodies is None:
        return None
    config = CellConfig.from_yaml(options.bodies)
    name = arm_of(config.arms, options.arm)
    return fit_bodies(pairs, describe_arm(name, config.arms[name]))


TRAIN = Verb(
    "Train a network on the table of multipanda pairs; the result runs without torch.",
    _add_train_arguments,
    _run_train,
)


SUMMARY = (
    "Learn the difference between a robot and its twin: multipanda residual "
    "train|evaluate|export|node."
)
VERBS = {"train": TRAIN, "evaluate": EVALUATE, "export": EXPORT, "node": NODE}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_verbs(parser, VERBS)


def run(options: argparse.Namespace) -> int:
    return run_verb(options)
