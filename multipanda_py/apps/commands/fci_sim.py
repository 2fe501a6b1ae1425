# SPDX-License-Identifier: Apache-2.0
"""Commands that simulate Franka robots for clients that use libfranka, and inject faults."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from multipanda_py.apps.commands.command_line import OK, Verb, complain, print_line
from multipanda_py.exceptions import BackendError, ConfigurationError
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.simulation.fci import arguments as fci_arguments
from multipanda_py.simulation.fci.fault_injection import ADMIN_PORT, Admin, AdminClient

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.simulation.fci.process import Server


def _add_server_arguments(parser: argparse.ArgumentParser) -> None:
    fci_arguments.add_arguments(parser)
    parser.add_argument(
        "--task", type=int, metavar="N",
        help="with --cell: use the table or box of task 3, 4 or 5 of multipanda validate instead "
        "of the objects in the file; implies --tidy",
    )  # fmt: skip
    parser.add_argument(
        "--object-width", type=float, default=0.0, metavar="M",
        help="width of an object between the fingers of every gripper, 0 for no object",
    )  # fmt: skip


def _run_server(options: argparse.Namespace) -> int:
    from multipanda_py.simulation.fci.process import make_server

    server = make_server(options, _cell_of_option(options))
    try:
        end_in_order()
        for unit in server.control_units:
            unit.gripper.put_object(options.object_width)
        kind = "in lockstep" if options.lockstep or options.synchronized else "at 1 kHz"
        print_line(f"robots at {', '.join(options.addresses)}, {kind}; Ctrl-C ends it")
        server.run(lambda: True, _print_status)
    except KeyboardInterrupt:
        print_line("stopped")
    finally:
        server.close()
    return OK


def _cell_of_option(options: argparse.Namespace) -> CellConfig | None:
    if options.cell is None:
        if options.task is not None:
            raise ConfigurationError("--task: needs --cell, because it adds objects to a cell.")
        return None
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.identification.validation.tasks import in_task
    from multipanda_py.simulation.fci.scene import ignored_delays

    config = CellConfig.from_yaml(options.cell)
    for sentence in ignored_delays(config):
        complain(f"note: {sentence}")
    if options.task is None:
        return config
    options.tidy = True
    return in_task(config, options.task)


def _print_status(server: Server) -> None:
    for unit in server.control_units:
        robot = unit.robot
        counted = robot.cycles.summary()
        client = f"client {unit.port.peer}" if unit.port.peer else "no client"
        parts = [
            f"{unit.address} {robot.message_id / 1e3:8.1f} s",
            f"{robot.mode.name.lower().replace('_', ' '):12}",
            client,
            f"{counted['active_cycles']} cycles, {counted['lost']} lost "
            f"(up to {counted['longest_run']} in a row)",
        ]
        if counted["latency_us"]:
            parts.append(f"answered in {counted['latency_us']['50']:.0f} us")
        if robot.errors:
            parts.append(", ".join(robot.errors))
        print_line("  ".join(parts))


def _add_inject_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "address", metavar="ADDRESS", help="address of the robot, such as 127.0.0.1"
    )
    parser.add_argument("fault", metavar="FAULT", help="one of the faults below")
    parser.add_argument(
        "arguments", nargs="*", metavar="NAME=VALUE", help="arguments of the fault"
    )
    lines = [fci_arguments.usage_of(getattr(Admin, f"do_{name}")) for name in _fault_names()]
    parser.epilog = "faults, with their arguments:\n" + "\n".join(
        f"  {usage}\n      {text}" for usage, text in lines
    )


def _run_inject(options: argparse.Namespace) -> int:
    name = options.fault.replace("-", "_")
    command = fci_arguments.find_command(Admin, name)
    arguments = fci_arguments.parse_arguments(command, options.arguments)
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


def _fault_names() -> list[str]:
    return [name.removeprefix("do_") for name in vars(Admin) if name.startswith("do_")]


def _condition(stats: dict[str, Any]) -> str:
    if not stats["running"]:
        return "the robot is switched off"
    errors = f" ({', '.join(stats['errors'])})" if stats["errors"] else ""
    return f"the robot is in mode {stats['mode'].replace('_', ' ')}{errors}"


COMMANDS = {
    "fci-sim": Verb(
        "Simulate Franka robots for libfranka clients; Ctrl-C ends it.",
        _add_server_arguments,
        _run_server,
    ),
    "inject": Verb(
        "Inject a fault into a robot that multipanda fci-sim simulates.",
        _add_inject_arguments,
        _run_inject,
    ),
}
