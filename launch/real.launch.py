# SPDX-License-Identifier: Apache-2.0
"""Run a cell of real arms, with its transforms.

ros2 launch multipanda_py real.launch.py robot_ips:=left:172.16.0.2,right:172.16.1.2
ros2 launch multipanda_py real.launch.py config_file:=my_cell.yaml namespace:=lab use_rviz:=true
"""

from __future__ import annotations

from pathlib import Path

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import LaunchContext, LaunchDescription
from multipanda_py.config import CellConfig
from multipanda_py.describe import describe_arm
from multipanda_py.description import cell_urdf

DEFAULT_CELL = Path(get_package_share_directory("multipanda_py")) / "config" / "dual_real.yaml"
BOOLEAN = ["true", "false"]
ARGUMENTS = (
    ("config_file", str(DEFAULT_CELL), "cell file, which is a ROS 2 parameter file", None),
    ("namespace", "", "namespace of the cell and everything in it", None),
    ("robot_ips", "", "addresses instead of the file's: arm:ip,arm:ip", None),
    ("use_rviz", "false", "start RViz", BOOLEAN),
)


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the nodes depend on what the cell file says."""
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text, choices=choices)
        for name, default, text, choices in ARGUMENTS
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=nodes)])


def nodes(context: LaunchContext) -> list[Node]:
    """Return the controller, the transforms of its arms and, if wanted, RViz."""
    chosen = {name: LaunchConfiguration(name).perform(context) for name, *_ in ARGUMENTS}
    addresses = {}
    for pair in filter(None, chosen["robot_ips"].split(",")):
        arm, _, ip = pair.partition(":")
        addresses[f"arms.{arm.strip()}.robot_ip"] = ip.strip()
    config = CellConfig.from_yaml(chosen["config_file"])
    arms = [describe_arm(name, arm) for name, arm in config.arms.items()]
    urdf = ParameterValue(cell_urdf(arms, config.cell.name), value_type=str)
    common = {"namespace": chosen["namespace"], "output": "screen"}
    started = [
        Node(
            package="multipanda_py",
            executable="multimode_controller",
            parameters=[chosen["config_file"], addresses],
            on_exit=Shutdown(reason="the cell has ended"),
            **common,
        ),
        Node(
            package="robot_state_publisher",
            executable="robot_state_publisher",
            parameters=[{"robot_description": urdf}],
            **common,
        ),
    ]
    if chosen["use_rviz"] == "true":
        rviz = Node(package="rviz2", executable="rviz2", arguments=["-f", "world"], **common)
        started.append(rviz)
    return started
