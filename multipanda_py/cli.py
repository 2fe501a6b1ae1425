# SPDX-License-Identifier: Apache-2.0
"""The program ``multipanda``: run, check, list and draw cells, without ROS."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from multipanda_py import __version__
from multipanda_py.exceptions import MultipandaError

COMMANDS = ("run", "check", "list")
OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def say(text: str) -> None:
    """Write a line to standard output at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(prog="multipanda", description=(__doc__ or "").strip())
    parser.add_argument("--version", action="version", version=f"multipanda {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        module = import_module(f"multipanda_py.commands.{name}")
        command = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        module.add_arguments(command)
        command.set_defaults(function=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0, 1 after an error that was said in words, 2 for wrong usage, 130 when interrupted.
    """
    options = make_parser().parse_args(arguments)
    try:
        code: int = options.function(options)
    except MultipandaError as error:
        complain(f"multipanda {options.command}: {error}")
        return FAILED
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        complain(f"multipanda {options.command}: {error}")
        return FAILED
    except KeyboardInterrupt:
        complain(f"multipanda {options.command}: interrupted")
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
