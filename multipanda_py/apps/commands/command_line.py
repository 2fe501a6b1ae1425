# SPDX-License-Identifier: Apache-2.0
"""Types of command-line arguments, and what several commands make of one."""

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


def say(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_events(cell: Cell) -> None:
    """Print the events of a loop since the last call."""
    for event in cell.events():
        say(f"event: {event}")


def complain(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def check_output(
    path: Path, *suffixes: str, option: str = "--output", beside: Iterable[str | Path | None] = ()
) -> Path:
    """Return where a file is to go, for commands that take minutes until they write it.

    Args:
        path: Of the file.
        suffixes: Those that it may have, in small letters; any if none is named.
        option: That gave it.
        beside: Files of the same command, read or written, which it may not be.

    Raises:
        ConfigurationError: If it has none of the suffixes, if any are named, or is a folder or
            one of the other files, or nothing can be written there.
    """
    folder = path.absolute().parent
    allowed = " ".join(("a file", " or ".join(suffixes))).strip()
    wrong = f"{option}: got {path}, allowed {allowed} in a folder that is there"
    if path.is_dir():
        raise ConfigurationError(f"{wrong}: it is a folder itself")
    if suffixes and path.suffix.lower() not in suffixes:
        raise ConfigurationError(f"{wrong}: its suffix is {path.suffix!r}")
    if not folder.is_dir():
        raise ConfigurationError(f"{wrong}: there is no folder {folder}")
    if any(other and _is_same(path, Path(other)) for other in beside):
        raise ConfigurationError(
            f"{option}: got {path}, which this command has another use for; allowed another file"
        )
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigurationError(f"{option}: got {path}, which may not be written")
    return path


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths are of one file, there or not."""
    return os.path.realpath(one) == os.path.realpath(other)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all.

    Raises:
        ConfigurationError: If it cannot be written.
    """
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")


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
