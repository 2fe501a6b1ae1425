# SPDX-License-Identifier: Apache-2.0
"""Make joint states of any simulator look like those of the robot, over ROS."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from multipanda_py.commands.options import Verb
from multipanda_py.extras import require
from multipanda_py.machine.child import module_command
from multipanda_py.residual.corrected_states import CorrectedStates
from multipanda_py.residual.weights_file import load_residual


def _add_node_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="of multipanda residual train")
    parser.add_argument(
        "--prefix", default="", help="of the joints' names, where two arms are in one message"
    )
    parser.add_argument(
        "--remap", action="append", default=[], metavar="FROM:=TO",
        help="another name for a topic, as ROS has it; may be given more than once",
    )  # fmt: skip


def _run_node(options: argparse.Namespace) -> NoReturn:
    """Become the node."""
    CorrectedStates(load_residual(options.file))  # refused now, in one line
    require("rclpy", "sensor_msgs", "std_msgs")
    remaps = [word for remap in options.remap for word in ("-r", remap)]
    command = module_command(
        "multipanda_py.ros.residual_node", str(options.file), options.prefix, *remaps
    )
    sys.stdout.flush()
    os.execv(command[0], command)


NODE = Verb(
    "Take joint_states in and give corrected/joint_states and residual/confidence, over ROS.",
    _add_node_arguments,
    _run_node,
)
