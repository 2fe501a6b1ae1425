# SPDX-License-Identifier: Apache-2.0
"""Command-line program ``multipanda``, which runs, checks, lists and draws cells without ROS."""

from __future__ import annotations

if __name__ == "__main__":  # The imports below take a second, so signals are set up first.
    from multipanda_py.realtime.system.signals import end_at_once

    end_at_once("multipanda")

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from multipanda_py.apps.commands.command_line import FAILED, INTERRUPTED, Verb, complain
from multipanda_py.exceptions import MultipandaError
from multipanda_py.realtime.system.signals import Interrupted
from multipanda_py.registry import VERSION, extras_named

COMMANDS = {
    "run": "run", "panel": "panel", "teleop": "teleop", "task": "task", "check": "check",
    "list": "list", "render": "render", "delay-margin": "delay_margin", "robot": "descriptions",
    "moveit": "descriptions", "perturb": "twin", "validate": "twin", "sweep": "twin",
    "calibrate": "calibrate", "pairs": "pairs", "residual": "residual", "dataset": "dataset",
    "doctor": "check", "bench": "bench", "fci-sim": "fci_sim", "inject": "fci_sim",
    "excite": "excite", "identify": "identify", "actuators": "actuators", "record": "logs",
    "plot": "logs", "monitor": "monitor",
}  # fmt: skip
"""Module of each command in :mod:`multipanda_py.apps.commands`, in the order of the help."""


def command_of(name: str) -> Verb:
    """Return a command of ``multipanda``, without importing the modules of other commands."""
    module = import_module(f"multipanda_py.apps.commands.{COMMANDS[name]}")
    commands: Mapping[str, Verb] = getattr(module, "COMMANDS", {})
    return commands.get(name) or Verb(module.SUMMARY, module.add_arguments, module.run)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="multipanda",
        description="Run, check, list and draw cells of Franka arms, without ROS.",
    )
    parser.add_argument("--version", action="version", version=f"multipanda {VERSION}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = command_of(name)
        own = commands.add_parser(name, help=command.summary, description=command.summary)
        command.add_arguments(own)
        own.set_defaults(function=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Returns:
        0 on success, 1 after a reported error, 2 for wrong usage; after a signal, 128 plus its
            number.
    """
    command = "multipanda"
    try:
        with extras_named():
            options = make_parser().parse_args(arguments)
            command = f"multipanda {options.command}"
            code: int = options.function(options)
    except BrokenPipeError:  # The reader of the pipe, such as head, has closed it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (MultipandaError, OSError) as error:
        complain(f"{command}: {error}")
        return FAILED
    except Interrupted as signal:
        complain(f"{command}: stopped by {signal.name} before it finished")
        return signal.code
    except KeyboardInterrupt:
        complain(f"{command}: interrupted")
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
