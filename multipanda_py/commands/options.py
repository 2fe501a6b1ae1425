# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments, and what several commands make of one."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from multipanda_py.exceptions import ConfigurationError, UnknownName

CELL_FILES = (".yaml", ".yml")


class Verb(NamedTuple):
    """Verb of a command, such as ``check`` of ``multipanda dataset``.

    Attributes:
        summary: Line for the help.
        add_arguments: Function that declares the arguments.
        run: Function that executes the verb and returns the exit code.
    """

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb]) -> None:
    """Declare the verbs of a command with their arguments."""
    choices = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in verbs.items():
        own = choices.add_parser(name, help=verb.summary, description=verb.summary)
        verb.add_arguments(own)
        own.set_defaults(verb_function=verb.run)


def run_verb(options: argparse.Namespace) -> int:
    """Execute the verb that was chosen, and return its exit code."""
    code: int = options.verb_function(options)
    return code


def arm_of(arms: Collection[str], name: str | None) -> str:
    """Return the arm that ``--arm`` names, or the only one.

    Raises:
        UnknownName: If there is none of this name.
        ConfigurationError: If there are several and none is named.
    """
    arm = name or (next(iter(arms)) if len(arms) == 1 else "")
    if not arm:
        raise ConfigurationError(f"--arm: missing, allowed one of {', '.join(arms)}")
    if arm not in arms:
        raise UnknownName("--arm: arm", arm, tuple(arms))
    return arm


def positive(text: str) -> float:
    """Return a positive, finite number.

    Raises:
        argparse.ArgumentTypeError: If the text is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a positive number")
    return value


def port(text: str) -> int:
    """Return a number of a port, or 0 for any that is free.

    Raises:
        argparse.ArgumentTypeError: If the text is none.
    """
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed 0 to 65535")
    return int(text)


def pixels(text: str) -> int:
    """Return a positive, even number of pixels, as films need.

    Raises:
        argparse.ArgumentTypeError: If the text is none.
    """
    if not text.isdecimal() or int(text) < 2 or int(text) % 2:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed an even, positive number")
    return int(text)


def count(text: str) -> int:
    """Return a whole number from 1.

    Raises:
        argparse.ArgumentTypeError: If the text is none.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 1")
    return int(text)


def seed(text: str) -> int:
    """Return a whole number from 0.

    Raises:
        argparse.ArgumentTypeError: If the text is none.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 0")
    return int(text)


def add_recover(parser: argparse.ArgumentParser) -> None:
    """Declare that real arms which stopped by themselves go on with the next run."""
    parser.add_argument(
        "--recover", action="store_true",
        help="recover real arms that stopped by themselves, as after a collision, for the next "
        "run: somebody has to watch; without, later runs say that they could not be done",
    )  # fmt: skip
