# SPDX-License-Identifier: Apache-2.0
"""Argument types, output and checks that several commands of ``multipanda`` use."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.files import replacing

if TYPE_CHECKING:
    from multipanda_py.cell import Cell


OK, FAILED, INTERRUPTED = 0, 1, 130
"""Exit codes of the commands."""


def print_line(text: str) -> None:
    """Write a line to standard output and flush it."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def print_events(cell: Cell) -> None:
    """Print the events of a cell since the last call."""
    for event in cell.events():
        print_line(f"event: {event}")


def complain(text: str) -> None:
    """Write a line to standard error and flush it."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def check_output(
    path: Path, *suffixes: str, option: str = "--output", beside: Iterable[str | Path | None] = ()
) -> Path:
    """Check that an output file can be written, and return its path.

    Args:
        path: Path of the output file.
        suffixes: Allowed suffixes in lower case; all suffixes by default.
        option: Command-line option that named the file, for the error message.
        beside: Other files of the command, which must not be overwritten.

    Raises:
        ConfigurationError: The suffix is not allowed, the path is a folder or one of the other
            files, the parent folder does not exist, or the file is not writable.
    """
    folder = path.absolute().parent
    allowed = " ".join(("a file", " or ".join(suffixes))).strip()
    wrong = f"{option}: {path} must be {allowed} in an existing folder"
    if path.is_dir():
        raise ConfigurationError(f"{wrong}, but it is a folder")
    if suffixes and path.suffix.lower() not in suffixes:
        raise ConfigurationError(f"{wrong}, but its suffix is {path.suffix!r}")
    if not folder.is_dir():
        raise ConfigurationError(f"{wrong}, but there is no folder {folder}")
    if any(other and _is_same(path, Path(other)) for other in beside):
        raise ConfigurationError(
            f"{option}: {path} is also another file of this command. Choose a different file."
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigurationError(f"{option}: {path} is not writable.")
    return path


def _is_same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def write_whole(path: Path, text: str) -> None:
    """Write a file atomically.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


CELL_FILES = (".yaml", ".yml")


class Verb(NamedTuple):
    """Command, or subcommand (verb) such as ``check`` of ``multipanda dataset``.

    Attributes:
        summary: One-line description for the help.
        add_arguments: Function that declares the arguments.
        run: Function that executes the command and returns the exit code.
    """

    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_verbs(parser: argparse.ArgumentParser, verbs: Mapping[str, Verb]) -> None:
    """Declare the subcommands of a command with their arguments."""
    choices = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in verbs.items():
        own = choices.add_parser(name, help=verb.summary, description=verb.summary)
        verb.add_arguments(own)
        own.set_defaults(verb_function=verb.run)


def run_verb(options: argparse.Namespace) -> int:
    """Execute the chosen subcommand and return its exit code."""
    code: int = options.verb_function(options)
    return code


def arm_of(arms: Collection[str], name: str | None) -> str:
    """Return the name of an arm after a check; without a name, the only arm of the cell.

    Args:
        arms: Names of all arms of the cell.
        name: Value of the option ``--arm``; None if the option is missing.

    Raises:
        UnknownName: There is no arm of this name.
        ConfigurationError: There are several arms, and ``--arm`` is missing.
    """
    arm = name or (next(iter(arms)) if len(arms) == 1 else "")
    if not arm:
        raise ConfigurationError(f"--arm: missing. Name one of {', '.join(arms)}")
    if arm not in arms:
        raise UnknownName("--arm: arm", arm, tuple(arms))
    return arm


def positive(text: str) -> float:
    """Parse a positive, finite number.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a positive number")
    return value


def port(text: str) -> int:
    """Parse a port number; 0 stands for any free port.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed 0 to 65535")
    return int(text)


def pixels(text: str) -> int:
    """Parse a positive, even number of pixels.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    if not text.isdecimal() or int(text) < 2 or int(text) % 2:
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed an even, positive number")
    return int(text)


def count(text: str) -> int:
    """Parse a positive integer.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 1")
    return int(text)


def seed(text: str) -> int:
    """Parse a non-negative integer.

    Raises:
        argparse.ArgumentTypeError: The text is not such a number.
    """
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, allowed a whole number from 0")
    return int(text)


def add_repeats(parser: argparse.ArgumentParser, default: int) -> None:
    """Declare ``--repeats``, the number of repetitions of each validation task."""
    parser.add_argument(
        "--repeats", type=count, default=default, metavar="N",
        help=f"repetitions of each task, default {default}",
    )  # fmt: skip


def add_seconds(parser: argparse.ArgumentParser, default: float) -> None:
    """Declare ``--seconds``, the duration of each validation task."""
    parser.add_argument(
        "--seconds", type=positive, default=default, metavar="S",
        help=f"duration of each task, default {default:g}",
    )  # fmt: skip


def add_recover(parser: argparse.ArgumentParser) -> None:
    """Declare ``--recover``, which clears faults of real arms between runs."""
    parser.add_argument(
        "--recover", action="store_true",
        help="recover real arms that stopped with a fault, such as a collision, before the next "
        "run; a person must watch the arms. Without it, later runs are reported as not done",
    )  # fmt: skip
