# SPDX-License-Identifier: Apache-2.0
"""Simulate Franka robots that libfranka connects to."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from multipanda_py.commands.output import OK, say
from multipanda_py.fci_sim.arguments import add_arguments as add_shared_arguments
from multipanda_py.machine.interruption import end_in_order

if TYPE_CHECKING:
    from multipanda_py.fci_sim.server import Server

SUMMARY = "Simulate Franka robots that libfranka connects to; Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_shared_arguments(parser)
    parser.add_argument(
        "--object-width", type=float, default=0.0, metavar="M",
        help="of an object between the fingers of every hand, 0 for none",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Serve and report once a second."""
    from multipanda_py.fci_sim.process import make_server

    server = make_server(options)
    try:
        end_in_order()
        for unit in server.control_units:
            unit.gripper.put_object(options.object_width)
        kind = "in lockstep" if options.lockstep or options.together else "at 1 kHz"
        say(f"robots at {', '.join(options.addresses)}, {kind}; Ctrl-C ends it")
        server.run(lambda: True, _report)
    except KeyboardInterrupt:
        say("stopped")
    finally:
        server.close()
    return OK


def _report(server: Server) -> None:
    """Write a line per robot."""
    for unit in server.control_units:
        robot = unit.robot
        counted = robot.cycles.summary()
        client = f"client {unit.port.peer}" if unit.port.peer else "no client"
        parts = [
            f"{unit.address} {robot.message_id / 1e3:8.1f} s",
            f"{robot.mode.name.lower().replace('_', ' '):12}",
            client,
            f"{counted['active_cycles']} cycles, {counted['lost']} lost "
            f"(at most {counted['longest_run']} in a row)",
        ]
        if counted["latency_us"]:
            parts.append(f"answered in {counted['latency_us']['50']:.0f} us")
        if robot.errors:
            parts.append(", ".join(robot.errors))
        say("  ".join(parts))
