# SPDX-License-Identifier: Apache-2.0
"""Inject faults or disturbances into a running simulated robot, or read its state."""

from __future__ import annotations

import argparse
import json
from typing import Any

from multipanda_py.apps.commands.command_line import OK, print_line
from multipanda_py.exceptions import BackendError
from multipanda_py.simulation.fci import arguments as admin_arguments
from multipanda_py.simulation.fci.admin import ADMIN_PORT, Admin, AdminClient

SUMMARY = "Inject a fault into a robot that multipanda fci-sim simulates."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "address", metavar="ADDRESS", help="address of the robot, such as 127.0.0.1"
    )
    parser.add_argument("fault", metavar="FAULT", help="one of the faults below")
    parser.add_argument(
        "arguments", nargs="*", metavar="NAME=VALUE", help="arguments of the fault"
    )
    lines = [admin_arguments.usage_of(getattr(Admin, f"do_{name}")) for name in _ordered()]
    parser.epilog = "faults, with their arguments:\n" + "\n".join(
        f"  {usage}\n      {text}" for usage, text in lines
    )


def run(options: argparse.Namespace) -> int:
    """Check the request, send it and print the state of the robot.

    Raises:
        ConfigurationError: There is no such fault, or it has no such arguments.
        BackendError: No simulated robot is reachable, or it rejects the request.
    """
    name = options.fault.replace("-", "_")
    command = admin_arguments.find(Admin, name)
    arguments = admin_arguments.read(command, options.arguments)
    try:
        client = AdminClient(options.address)
    except OSError as error:
        raise BackendError(
            f"no simulated robot at {options.address} (port {ADMIN_PORT}: "
            f"{error.strerror or error}); start one: multipanda fci-sim {options.address}"
        ) from error
    try:
        answer = client.request(name, **arguments)
        if answer:
            print_line(json.dumps(answer, indent=2))
        else:
            print_line(f"{options.address}: {name}; {_condition(client.request('stats'))}")
    finally:
        client.close()
    return OK


def _ordered() -> list[str]:
    """Return the command names in the order of their declaration."""
    return [name.removeprefix("do_") for name in vars(Admin) if name.startswith("do_")]


def _condition(stats: dict[str, Any]) -> str:
    if not stats["running"]:
        return "the robot is switched off"
    errors = f" ({', '.join(stats['errors'])})" if stats["errors"] else ""
    return f"the robot is in mode {stats['mode'].replace('_', ' ')}{errors}"
