# SPDX-License-Identifier: Apache-2.0
"""Serve a browser page that shows and moves the cell of this command or of a ROS node."""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import sys
from pathlib import Path
from typing import NoReturn

from multipanda_py.apps.commands.command_line import OK, complain, port, positive, print_line
from multipanda_py.cell import Cell
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.parameter_file import refuse_namespace
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.realtime.system.child_process import module_command
from multipanda_py.realtime.system.scheduling import other_cpus
from multipanda_py.realtime.system.signals import end_in_order
from multipanda_py.registry import require

SUMMARY = "Serve a browser page that shows and moves a cell; Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", nargs="?",
        help="cell file to run; with --node: description of the node's cell, needed if the node "
        "does not provide it, for example from another machine",
    )  # fmt: skip
    parser.add_argument(
        "--node", metavar="NAMESPACE", nargs="?", const="",
        help="connect to a running node with this namespace, on this machine or another one",
    )  # fmt: skip
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="address to listen at; anyone with the printed URL can move the arms",
    )  # fmt: skip
    parser.add_argument(
        "--port",
        type=port,
        default=8080,
        metavar="N",
        help="port to listen at; if it is in use, the next free one",
    )
    parser.add_argument(
        "--duration",
        type=positive,
        default=math.inf,
        metavar="S",
        help="end after S seconds; default: Ctrl-C",
    )


def run(options: argparse.Namespace) -> int:
    """Serve the page of a cell until the cell ends, the duration is over or Ctrl-C is pressed."""
    from multipanda_py.apps.panel import CellPanel

    _check_host_is_local(options.host)
    if options.node is not None:
        _execute_node_panel(options)
    if options.file is None:
        raise ConfigurationError("name a cell file to run, or --node for a running node")
    cell = Cell.from_yaml(options.file)
    if cell.config.cell.placement == "inline":
        raise ConfigurationError(
            f"{options.file}: cell.placement: got inline, allowed process or thread: the panel "
            "needs a cell that runs in real time"
        )
    end_in_order()
    try:
        cell.start()
        for warning in cell.warnings:
            complain(f"warning: {warning}")
        if cell.config.cell.placement == "process":
            os.sched_setaffinity(0, other_cpus(cell.realtime))  # Do not use the loop's core.
        address = options.host, options.port
        with CellPanel(
            cell, *address, report=lambda event: print_line(f"event: {event}")
        ) as panel:
            print_line(f"the panel is at {panel.address}")
            panel.serve(options.duration)
    except KeyboardInterrupt:
        print_line("ended")
    finally:
        cell.close()
    return OK


def _check_host_is_local(host: str) -> None:
    try:
        kind, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(kind, socket.SOCK_STREAM) as one:
            one.bind(address)
    except OSError as error:
        raise ConfigurationError(
            f"--host: got {host}, allowed an address of this machine: {error.strerror}"
        ) from None


def _execute_node_panel(options: argparse.Namespace) -> NoReturn:
    refuse_namespace(options.node)
    if options.file is not None:
        CellConfig.from_yaml(options.file)
    require("rclpy", "controller_manager_msgs", "control_msgs")
    message = {
        "namespace": options.node,
        "file": str(Path(options.file).absolute()) if options.file else "",
        "host": options.host,
        "port": options.port,
        "duration": options.duration if math.isfinite(options.duration) else 0.0,
    }
    sys.stdout.flush()
    module = "multipanda_py.apps.panel.node_panel"
    command = module_command(module, json.dumps(message), hears_interrupts=True)
    os.execv(command[0], command)
