# SPDX-License-Identifier: Apache-2.0
"""Launch descriptions of a cell and of the nodes around it, with common arguments."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ament_index_python.packages import get_package_share_directory, get_packages_with_prefixes
from launch.actions import (
    DeclareLaunchArgument,
    OpaqueFunction,
    SetEnvironmentVariable,
    Shutdown,
)
from launch.logging import get_logger
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from launch import Action, LaunchContext, LaunchDescription
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms
from multipanda_py.config.parameter_file import refuse_namespace
from multipanda_py.exceptions import ConfigurationError, LoopError
from multipanda_py.robots.urdf import cell_urdf
from multipanda_py.ros.launch_arguments import (
    BOOLEAN_VALUES,
    DISCOVERY_VALUES,
    Argument,
    cell_file,
    misspelt,
    refuse_strangers,
)

MOVE_GROUP, PLANNING_PACKAGES = "moveit_ros_move_group", "moveit_ros_planning"
SCENE_PUBLISHER = "moveit_publish_scene_from_text"
Overrides = Callable[[Mapping[str, str], CellConfig], Mapping[str, Any]]
"""Function of the argument values and the cell that returns parameters with precedence over the
cell file."""


class Planning(NamedTuple):
    """Configuration of MoveIt.

    Attributes:
        parameters: Parameters of ``move_group``.
        scene: Text of a ``.scene`` file with the obstacles.
    """

    parameters: dict[str, Any]
    scene: str


Planner = Callable[[Mapping[str, str], CellConfig], Planning]
"""Function of the argument values and the cell that returns the configuration of MoveIt."""


def make_launch_description(
    default_cell: str,
    own: Sequence[Argument],
    overrides: Overrides = lambda *_: {},
    planner: Planner | None = None,
) -> LaunchDescription:
    """Return the launch description of one cell, its transforms and optionally MoveIt and RViz.

    Args:
        default_cell: Name of a cell file of this package.
        own: Arguments in addition to those of every cell, such as ``namespace``.
        overrides: Function that converts argument values to parameters of the cell.
        planner: Function that configures MoveIt; None to start no MoveIt.
    """
    share_folder = Path(get_package_share_directory("multipanda_py"))
    arguments: list[Argument] = [
        ("config_file", str(share_folder / "config" / default_cell),
         "cell file (a ROS 2 parameter file), or the name of a cell file of this package", None),
        ("namespace", "", "namespace of the cell and all its nodes", None),
        ("cell_name", "", "name of the cell instead of that in the file; a machine runs one cell "
         "per name", None),
        *own,
        ("use_rviz", "false", "start RViz", BOOLEAN_VALUES),
        ("discovery_range", "environment",
         "range in which clients can find and command the cell: this machine or its network; by "
         "default ROS_AUTOMATIC_DISCOVERY_RANGE, or the network if that is not set",
         DISCOVERY_VALUES),
    ]  # fmt: skip

    def actions(context: LaunchContext) -> list[Action]:
        known = [name for name, *_ in arguments]
        if _is_top_level_launch(context):
            refuse_strangers(context.argv, known)
        _warn_of_misspelt_arguments(context, known)
        chosen = {name: LaunchConfiguration(name).perform(context) for name, *_ in arguments}
        return [
            *_discovery(chosen["discovery_range"]),
            *_nodes(chosen, overrides, planner),
        ]

    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text, choices=choices)
        for name, default, text, choices in arguments
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=actions)])


def _is_top_level_launch(context: LaunchContext) -> bool:
    # Another launch file can include this one; it is then not on the command line.
    own = Path(str(context.get_locals_as_dict().get("current_launch_file_path", ""))).name
    return any(Path(word).name == own for word in sys.argv)


def _warn_of_misspelt_arguments(context: LaunchContext, known: Sequence[str]) -> None:
    # Launch passes every value on to all included files, and does not report unused ones.
    configurations = context.launch_configurations
    for name, near in misspelt(configurations, known).items():
        get_logger("multipanda_py").warning(
            f"{name}: unknown argument, which has no effect. Did you mean {near}, now "
            f"{configurations.get(near)!r}?"
        )


def _discovery(chosen: str) -> list[SetEnvironmentVariable]:
    if chosen == DISCOVERY_VALUES[0]:
        return []
    return [SetEnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", chosen)]


def _nodes(
    chosen: Mapping[str, str], overrides: Overrides, planner: Planner | None
) -> list[Action]:
    installed = get_packages_with_prefixes()
    if planner is not None and MOVE_GROUP not in installed:
        raise ConfigurationError(
            f"the package {MOVE_GROUP} is not installed (apt install ros-$ROS_DISTRO-moveit). "
            "No process was started"
        )
    if chosen["use_rviz"] == "true" and "rviz2" not in installed:
        raise ConfigurationError(
            "use_rviz: got true, but the package rviz2 is not installed. No process was started"
        )
    refuse_namespace(chosen["namespace"])
    file = str(cell_file(chosen["config_file"]))
    config = CellConfig.from_yaml(file, chosen["namespace"])
    parameters = {**overrides(chosen, config), **_cell_name_parameter(chosen["cell_name"])}
    layout, beside = "cell.rviz", []
    started: list[Action] = []
    if planner is not None:
        planning = planner(chosen, config)
        layout, beside = "moveit.rviz", [_with_xml_as_string(planning.parameters)]
        started.append(_node(chosen, MOVE_GROUP, "move_group", parameters=beside))
        if PLANNING_PACKAGES in installed:
            started.append(_scene_sender(chosen, planning.scene, beside))
    if chosen.get("start_cell", "true") == "true":
        started.extend(
            _cell_nodes(chosen, file, config, parameters, "robot_state_publisher" in installed)
        )
    if chosen["use_rviz"] == "true":
        path = Path(get_package_share_directory("multipanda_py")) / "config/layouts" / layout
        started.append(_node(chosen, "rviz2", arguments=["-d", str(path)], parameters=beside))
    return started


def _scene_sender(chosen: Mapping[str, str], scene: str, parameters: list[Any]) -> Node:
    with tempfile.NamedTemporaryFile("w", suffix=".scene", delete=False) as file:
        file.write(scene)
    remove = OpaqueFunction(function=lambda _: Path(file.name).unlink(missing_ok=True))
    return _node(
        chosen, PLANNING_PACKAGES, SCENE_PUBLISHER,
        parameters=parameters, arguments=[file.name], on_exit=remove,
    )  # fmt: skip


def _cell_name_parameter(name: str) -> dict[str, Any]:
    if not name:
        return {}
    # Raise ConfigurationError for an invalid name.
    CellConfig.from_dict({"cell": {"name": name}, "arms": {"arm": {}}})
    return {"cell.name": ParameterValue(name, value_type=str)}


def _with_xml_as_string(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: ParameterValue(value, value_type=str) if str(value).startswith("<?xml") else value
        for name, value in parameters.items()
    }


def _cell_nodes(
    chosen: Mapping[str, str],
    file: str,
    config: CellConfig,
    parameters: Mapping[str, Any],
    has_publisher: bool,
) -> list[Action]:
    # The node itself publishes /tf if robot_state_publisher is not installed or the cell sets
    # ``tf_rate``.
    remote = (
        has_publisher
        and "tf_rate" not in config.cell.model_fields_set
        and "cell.tf_rate" not in parameters
    )
    silent = {"cell.tf_rate": 0.0} if remote else {}
    own = [file, {**silent, **parameters}]
    started: list[Action] = [
        _node(chosen, "multipanda_py", "multimode_controller", parameters=own, on_exit=_end_launch)
    ]
    if remote:
        urdf = ParameterValue(cell_urdf(describe_arms(config), config.cell.name), value_type=str)
        described = [{"robot_description": urdf}]
        started.append(_node(chosen, "robot_state_publisher", parameters=described))
    return started


def _end_launch(event: Any, context: LaunchContext) -> list[Action]:
    # After the error launch stops all processes and returns 1.
    if event.returncode and not context.is_shutdown:
        code = event.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        raise LoopError(f"multimode_controller {how}. The launch ends")
    return [Shutdown(reason="the cell has ended")]


def _node(chosen: Mapping[str, str], package: str, program: str = "", **more: Any) -> Node:
    # The process also ends if the launch is killed.
    ends_with_launch = "setpriv --pdeathsig INT --" if shutil.which("setpriv") else None
    return Node(
        package=package,
        executable=program or package,
        exec_name=program or package,  # By default launch would show the prefix as name.
        namespace=chosen["namespace"],
        output="screen",
        prefix=ends_with_launch,
        **more,
    )
