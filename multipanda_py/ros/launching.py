# SPDX-License-Identifier: Apache-2.0
"""What the launch files share: their arguments, and the nodes around a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ament_index_python.packages import get_package_share_directory
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import Action, LaunchContext, LaunchDescription
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.robots.urdf import cell_urdf

BOOLEAN = ["true", "false"]
DISCOVERY = ["environment", "SUBNET", "LOCALHOST", "OFF"]
Argument = tuple[str, str, str, Sequence[str] | None]
"""Name, default, what it is, what it may be."""
Overrides = Callable[[Mapping[str, str]], dict[str, Any]]
"""From the arguments' values to parameters that go before those of the cell file."""


def make_launch_description(
    default_cell: str, argument: Argument, overrides: Overrides
) -> LaunchDescription:
    """Return a launch of one cell with its transforms.

    Args:
        default_cell: Name of a cell file of this package.
        argument: Beside those that every launch of a cell has.
        overrides: What that argument means.
    """
    share = Path(get_package_share_directory("multipanda_py"))
    arguments: list[Argument] = [
        ("config_file", str(share / "config" / default_cell),
         "cell file, which is a ROS 2 parameter file", None),
        ("namespace", "", "namespace of the cell and everything in it", None),
        argument,
        ("use_rviz", "false", "start RViz", BOOLEAN),
        ("discovery_range", "environment",
         "who may find, and command, the cell: this machine or the network it is in; by default "
         "as ROS_AUTOMATIC_DISCOVERY_RANGE says, and without it the network", DISCOVERY),
    ]  # fmt: skip

    def actions(context: LaunchContext) -> list[Action]:
        chosen = {name: LaunchConfiguration(name).perform(context) for name, *_ in arguments}
        return [*_discovery(chosen["discovery_range"]), *_nodes(chosen, overrides(chosen))]

    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text, choices=choices)
        for name, default, text, choices in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=actions)])


def _discovery(chosen: str) -> list[SetEnvironmentVariable]:
    """Return what tells every node of this launch how far it may be found."""
    if chosen == DISCOVERY[0]:
        return []
    return [SetEnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", chosen)]


def _nodes(chosen: Mapping[str, str], parameters: dict[str, Any]) -> list[Node]:
    """Return the controller, the transforms of its arms and, if wanted, RViz."""
    config = CellConfig.from_yaml(chosen["config_file"])
    arms = describe_arms(config)
    urdf = ParameterValue(cell_urdf(arms, config.cell.name), value_type=str)
    common = {"namespace": chosen["namespace"], "output": "screen"}
    started = [
        Node(
            package="multipanda_py",
            executable="multimode_controller",
            parameters=[chosen["config_file"], parameters],
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
        started.append(
            Node(package="rviz2", executable="rviz2", arguments=["-f", "world"], **common)
        )
    return started
