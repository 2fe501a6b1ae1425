# SPDX-License-Identifier: Apache-2.0
"""Write a residual as a model of ONNX."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from multipanda_py.commands.options import Verb
from multipanda_py.commands.output import OK, check_output, say
from multipanda_py.machine.whole_file import replacing
from multipanda_py.residual.onnx_model import carried, onnx_model
from multipanda_py.residual.weights_file import load_residual


def _add_export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="of multipanda residual train")
    parser.add_argument(
        "--no-bodies", action="store_true",
        help="the network alone; torques of bodies are no network, so who runs it adds them",
    )  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="onnx")


def _run_export(options: argparse.Namespace) -> int:
    """Export."""
    check_output(options.output, ".onnx", beside=[options.file])
    trained = load_residual(options.file)
    if options.no_bodies:
        trained = replace(trained, bodies=None)
    model = onnx_model(trained)
    with replacing(options.output) as partial:
        partial.write_bytes(model.SerializeToString())
    names = ", ".join(f"{name} ({size})" for name, size in carried(trained).items())
    say(f"{options.output}: state ({3 * len(trained.joints)}) at {trained.rate:g} Hz, "
        f"carried {names}")  # fmt: skip
    return OK


EXPORT = Verb(
    "Write a real-time residual as a model of ONNX, for programs in other languages.",
    _add_export_arguments,
    _run_export,
)
