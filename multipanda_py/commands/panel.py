# SPDX-License-Identifier: Apache-2.0
"""Run a cell with a page in the browser that shows and moves it."""

from __future__ import annotations

import argparse
import math
import os

from multipanda_py.cell import Cell
from multipanda_py.cell.may_touch import may_touch
from multipanda_py.commands.options import positive
from multipanda_py.commands.output import OK, complain, say
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.machine.interruption import end_in_order
from multipanda_py.machine.realtime import other_cpus

SUMMARY = "Run a cell with a page in the browser that shows and moves it; Ctrl-C ends it."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", metavar="FILE", help="the cell file")
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS",
        help="where to listen; whoever reaches another address than 127.0.0.1 may move the arms",
    )  # fmt: skip
    parser.add_argument(
        "--port", type=int, default=8080, metavar="N", help="to listen at, or the next free one"
    )
    parser.add_argument(
        "--duration", type=positive, default=math.inf, metavar="S", help="end after S seconds"
    )


def run(options: argparse.Namespace) -> int:
    """Run the cell and serve its page."""
    from multipanda_py.panel import CellPanel

    cell = Cell.from_yaml(options.file)
    if cell.config.cell.placement == "inline":
        raise ConfigurationError(
            f"{options.file}: cell.placement: got inline, allowed process or thread: a panel "
            "shows a cell that runs by itself"
        )
    end_in_order()
    try:
        cell.start()
        for warning in cell.warnings:
            complain(f"warning: {warning}")
        for sentence in may_touch(cell.config):
            say(f"note: {sentence}")
        if cell.config.cell.placement == "process":
            os.sched_setaffinity(0, other_cpus(cell.config.realtime))  # the loop's is left alone
        with CellPanel(cell, options.host, options.port) as panel:
            say(f"the panel is at {panel.address}")
            panel.serve(options.duration)
    except KeyboardInterrupt:
        say("ended")
    finally:
        cell.close()
    return OK
