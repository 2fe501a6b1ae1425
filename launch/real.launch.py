# SPDX-License-Identifier: Apache-2.0
"""Run a cell of real arms, with its transforms.

ros2 launch multipanda_py real.launch.py robot_ips:=left:172.16.0.2,right:172.16.1.2
ros2 launch multipanda_py real.launch.py config_file:=my_cell.yaml namespace:=lab use_rviz:=true
"""

from __future__ import annotations

from launch import LaunchDescription
from multipanda_py.ros.launch_arguments import addresses
from multipanda_py.ros.launching import make_launch_description

ADDRESSES = ("robot_ips", "", "addresses instead of the file's: arm:ip,arm:ip", None)


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the nodes depend on what the cell file says."""
    return make_launch_description(
        "dual_real.yaml", [ADDRESSES], lambda chosen, cell: addresses(chosen["robot_ips"], cell)
    )
