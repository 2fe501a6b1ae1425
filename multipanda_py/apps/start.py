# SPDX-License-Identifier: Apache-2.0
"""Where the programs start: they take the signals before they import anything large."""

from __future__ import annotations

import os
import sys

from multipanda_py.exceptions import MissingExtra
from multipanda_py.realtime.system.signals import end_at_once
from multipanda_py.registry import extras_named

HELP = """\
usage: multimode_controller --ros-args --params-file CELL.yaml [-p cell.NAME:=VALUE ...]

The ROS 2 node of a cell of arms: one control loop, its controllets, topics and services.

  --params-file FILE    the cell; config/ has some, `multipanda check FILE` reads one
  -p cell.NAME:=VALUE   another value of the section cell, for example -p cell.viewer:=true
  -r __ns:=/NAME        its namespace; everything else after --ros-args is ROS 2's own
"""


def multimode_controller() -> int:
    """Run the node; see :mod:`multipanda_py.ros.node.node`."""
    end_at_once("multimode_controller")
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.stdout.write(HELP)
        return 0
    try:
        with extras_named():
            from multipanda_py.ros.node.node import main
    except MissingExtra as error:
        sys.stderr.write(f"multimode_controller: {error}\n")
        return 1
    return main()


def multipanda() -> int:
    """Run a command; see :mod:`multipanda_py.apps.cli`.

    Matrices here are small: threads of the linear algebra take up to ten times the processor's
    time for them, and gain nothing.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    end_at_once("multipanda")
    try:
        with extras_named():
            from multipanda_py.apps.cli import main
    except MissingExtra as error:
        sys.stderr.write(f"multipanda: {error}\n")
        return 1
    return main()
