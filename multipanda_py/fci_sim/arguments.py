# SPDX-License-Identifier: Apache-2.0
"""Command-line arguments of simulated robots; importing this needs no MuJoCo."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

FIRST_ADDRESS = "127.0.0.1"
"""Of the first robot where nobody names one; others follow it."""


def _between(low: float, high: float, kind: type[float] = float) -> Callable[[str], float]:
    """Return what reads a number within bounds, ends included."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"got {text}, allowed {low:g} to {high:g}")
        return value

    return read


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what the module and the command ``multipanda fci-sim`` share."""
    parser.add_argument(
        "addresses", nargs="*", metavar="ADDRESS",
        help=f"of a robot, on this machine; default: {FIRST_ADDRESS}; with --cell those of its "
        "file, or one from there on for each of its arms",
    )  # fmt: skip
    parser.add_argument(
        "--cell", metavar="FILE",
        help="robots with the arms, tools and things of a cell file, in one world and its order: "
        "one of multipanda perturb makes robots that are not as their data sheet",
    )  # fmt: skip
    parser.add_argument(
        "--tidy", action="store_true",
        help="put what can be moved back to where it was whenever a robot begins to move and no "
        "other one does, as somebody would between two runs",
    )  # fmt: skip
    parser.add_argument(
        "--lockstep", action="store_true",
        help="send a state as soon as the one before is answered, instead of 1000 a second",
    )  # fmt: skip
    parser.add_argument(
        "--together", action="store_true",
        help="lockstep in which no robot gets ahead of another one that is moving",
    )  # fmt: skip
    parser.add_argument(
        "--phase", type=_between(0.0, 1000.0), action="append", default=[], metavar="MS",
        help="delay of a robot's clock; repeat for the second robot, the third ...",
    )  # fmt: skip
    parser.add_argument(
        "--ppm", type=_between(-1e5, 1e5), action="append", default=[], metavar="PPM",
        help="how much too slow a robot's clock is; repeat likewise",
    )  # fmt: skip
    parser.add_argument(
        "--priority",
        type=_between(0, 99, int),
        default=0,
        metavar="N",
        help="SCHED_FIFO priority up to 99, 0 for none",
    )
