# SPDX-License-Identifier: Apache-2.0
"""Run a cell and MoveIt 2 beside it, which plans for its arms.

ros2 launch multipanda_py moveit.launch.py use_rviz:=true
ros2 launch multipanda_py moveit.launch.py config_file:=my_cell.yaml start_cell:=false
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from launch import LaunchDescription
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.planning.moveit_files import (
    CONTROLLERS,
    SCENE,
    move_group_parameters,
    moveit_files,
    read_files,
)
from multipanda_py.ros.launch_arguments import BOOLEAN_VALUES
from multipanda_py.ros.launching import Planning, make_launch_description

ARGUMENTS = [
    ("moveit_folder", "", "what `multipanda moveit` wrote, and perhaps somebody edited; by "
     "default the same is made of the cell file, in some seconds", None),
    ("controllers", "ros_control", "who switches to the law that a plan needs: MoveIt "
     "(ros_control), or you (simple)", list(CONTROLLERS)),
    ("start_cell", "true", "start the cell too; else it runs already, in the same namespace",
     BOOLEAN_VALUES),
]  # fmt: skip


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the nodes depend on what the cell file says."""
    return make_launch_description("dual_moveit.yaml", ARGUMENTS, planner=planner)


def planner(chosen: Mapping[str, str], config: CellConfig) -> Planning:
    """Return the parameters of ``move_group``, and what is in the way."""
    folder = chosen["moveit_folder"]
    files = read_files(Path(folder)) if folder else moveit_files(config)
    parameters = move_group_parameters(files, chosen["controllers"], chosen["namespace"])
    return Planning(parameters, files[SCENE])
