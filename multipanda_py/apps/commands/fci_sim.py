# SPDX-License-Identifier: Apache-2.0
"""Simulate Franka robots for clients that use libfranka."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from multipanda_py.apps.commands.command_line import OK, complain, print_line
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.simulation.fci.arguments import add_arguments as add_shared_arguments

if TYPE_CHECKING:
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.simulation.fci.server import Server

SUMMARY = "Simulate Franka robots for libfranka clients; Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared_arguments(parser)
    parser.add_argument(
        "--task", type=int, metavar="N",
        help="with --cell: use the table or box of task 3, 4 or 5 of multipanda validate instead "
        "of the objects in the file; implies --tidy",
    )  # fmt: skip
    parser.add_argument(
        "--object-width", type=float, default=0.0, metavar="M",
        help="width of an object between the fingers of every gripper, 0 for no object",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Serve the robots and print their state once a second."""
    from multipanda_py.simulation.fci.process import make_server

    server = make_server(options, _cell(options))
    try:
        end_in_order()
        for unit in server.control_units:
            unit.gripper.put_object(options.object_width)
        kind = "in lockstep" if options.lockstep or options.synchronized else "at 1 kHz"
        print_line(f"robots at {', '.join(options.addresses)}, {kind}; Ctrl-C ends it")
        server.run(lambda: True, _report)
    except KeyboardInterrupt:
        print_line("stopped")
    finally:
        server.close()
    return OK


def _cell(options: argparse.Namespace) -> CellConfig | None:
    """Return the cell of the robots, if any, and print its features that they do not simulate."""
    if options.cell is None:
        if options.task is not None:
            raise ConfigurationError("--task: needs --cell, because it adds objects to a cell.")
        return None
    from multipanda_py.config.cell_file import CellConfig
    from multipanda_py.identification.validation.tasks import in_task
    from multipanda_py.simulation.fci.scene import left_out

    config = CellConfig.from_yaml(options.cell)
    for sentence in left_out(config):
        complain(f"note: {sentence}")
    if options.task is None:
        return config
    options.tidy = True
    return in_task(config, options.task)


def _report(server: Server) -> None:
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
