# SPDX-License-Identifier: Apache-2.0
"""Entry points of the programs, which handle signals before they import large modules."""

from __future__ import annotations

import os
import sys

from multipanda_py.exceptions import MissingExtra
from multipanda_py.realtime.system.signals import end_at_once
from multipanda_py.registry import extras_named

HELP = """\
usage: multimode_controller --ros-args --params-file CELL.yaml [-p cell.NAME:=VALUE ...]

Run the ROS 2 node of a cell: one control loop with its controllets, topics and services.

  --params-file FILE    cell file; see config/ for examples, `multipanda check FILE` checks one
  -p cell.NAME:=VALUE   override a value of the section cell, for example -p cell.viewer:=true
  -r __ns:=/NAME        namespace of the node; other options after --ros-args are those of ROS 2
"""


def multimode_controller() -> int:
    """Run the ROS 2 node of a cell; see :mod:`multipanda_py.ros.node.node`."""
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
    """Run a command; see :mod:`multipanda_py.apps.cli`."""
    # The matrices are small, so several threads would waste processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    end_at_once("multipanda")
    try:
        with extras_named():
            from multipanda_py.apps.cli import main
    except MissingExtra as error:
        sys.stderr.write(f"multipanda: {error}\n")
        return 1
    return main()
