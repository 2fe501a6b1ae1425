# SPDX-License-Identifier: Apache-2.0
"""Run a simulated cell, with its transforms.

ros2 launch multipanda_py sim.launch.py
ros2 launch multipanda_py sim.launch.py config_file:=my_cell.yaml namespace:=lab use_rviz:=true
"""

from __future__ import annotations

from collections.abc import Mapping

from launch import LaunchDescription
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.ros.launch_arguments import BOOLEAN_VALUES
from multipanda_py.ros.launching import make_launch_description

VIEWER = (
    "viewer",
    "file",
    "MuJoCo's window; by default as the cell file says",
    ["file", *BOOLEAN_VALUES],
)


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the nodes depend on what the cell file says."""
    return make_launch_description("dual_sim.yaml", [VIEWER], viewer)


def viewer(chosen: Mapping[str, str], _: CellConfig) -> dict[str, bool]:
    """Return the parameter that opens the window or keeps it shut."""
    wanted = chosen["viewer"]
    return {} if wanted == "file" else {"cell.viewer": wanted == "true"}
