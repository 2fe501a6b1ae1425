# SPDX-License-Identifier: Apache-2.0
"""What the launch files share: their arguments, and the nodes around a cell."""

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
from multipanda_py.config.node_names import refuse_namespace
from multipanda_py.exceptions import ConfigurationError, LoopError
from multipanda_py.robots.urdf import cell_urdf
from multipanda_py.ros.launch_arguments import (
    BOOLEAN,
    DISCOVERY,
    Argument,
    cell_file,
    misspelt,
    refuse_strangers,
)

MOVE_GROUP, PLANNING = "moveit_ros_move_group", "moveit_ros_planning"
SCENE_PUBLISHER = "moveit_publish_scene_from_text"
Overrides = Callable[[Mapping[str, str], CellConfig], Mapping[str, Any]]
"""From the arguments' values and the cell to parameters that go before those of its file."""


class Planning(NamedTuple):
    """What MoveIt is told.

    Attributes:
        parameters: Of ``move_group``.
        scene: Text of a ``.scene`` file.
    """

    parameters: dict[str, Any]
    scene: str


Planner = Callable[[Mapping[str, str], CellConfig], Planning]
"""From the arguments' values and the cell."""


def make_launch_description(
    default_cell: str,
    own: Sequence[Argument],
    overrides: Overrides = lambda *_: {},
    planner: Planner | None = None,
) -> LaunchDescription:
    """Return a launch of one cell with its transforms.

    Args:
        default_cell: Name of a cell file of this package.
        own: Arguments beside those that every launch of a cell has.
        overrides: What they mean to the cell.
        planner: What they mean to MoveIt, if it is to be started.
    """
    share = Path(get_package_share_directory("multipanda_py"))
    arguments: list[Argument] = [
        ("config_file", str(share / "config" / default_cell),
         "cell file, which is a ROS 2 parameter file, or the name of one of this package's", None),
        ("namespace", "", "namespace of the cell and everything in it", None),
        ("cell_name", "", "name of the cell, instead of the file's: of one name there runs one on "
         "a machine", None),
        *own,
        ("use_rviz", "false", "start RViz", BOOLEAN),
        ("discovery_range", "environment",
         "who may find, and command, the cell: this machine or the network it is in; by default "
         "as ROS_AUTOMATIC_DISCOVERY_RANGE says, and without it the network", DISCOVERY),
    ]  # fmt: skip

    def actions(context: LaunchContext) -> list[Action]:
        known = [name for name, *_ in arguments]
        if _is_launched_itself(context):
            refuse_strangers(context.argv, known)
        _warn_of_misspelt(context, known)
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


def _is_launched_itself(context: LaunchContext) -> bool:
    """Return whether the command line is this launch file's and not that of one including it."""
    own = Path(str(context.get_locals_as_dict().get("current_launch_file_path", ""))).name
    return any(Path(word).name == own for word in sys.argv)


def _warn_of_misspelt(context: LaunchContext, known: Sequence[str]) -> None:
    """Warn of values that another launch file gives to misspelt arguments.

    Launch passes every value on, also those meant for other files, and reports no unused one.
    """
    given = context.launch_configurations
    for name, near in misspelt(given, known).items():
        get_logger("multipanda_py").warning(
            f"{name}: there is no such argument; near: {near}, which is {given.get(near)!r}"
        )


def _discovery(chosen: str) -> list[SetEnvironmentVariable]:
    """Return what tells every node of this launch how far it may be found."""
    if chosen == DISCOVERY[0]:
        return []
    return [SetEnvironmentVariable("ROS_AUTOMATIC_DISCOVERY_RANGE", chosen)]


def _nodes(
    chosen: Mapping[str, str], overrides: Overrides, planner: Planner | None
) -> list[Action]:
    """Return the controller, the transforms of its arms and, if wanted, MoveIt and RViz.

    Raises:
        ConfigurationError: If MoveIt, RViz or the cell file is not there, or an argument does
            not fit the cell; before anything is started.
    """
    installed = get_packages_with_prefixes()
    if planner is not None and MOVE_GROUP not in installed:
        raise ConfigurationError(
            f"the package {MOVE_GROUP} is not installed (apt install ros-$ROS_DISTRO-moveit); "
            "nothing is started"
        )
    if chosen["use_rviz"] == "true" and "rviz2" not in installed:
        raise ConfigurationError(
            "use_rviz: got true, but the package rviz2 is not installed; nothing is started"
        )
    refuse_namespace(chosen["namespace"])
    file = str(cell_file(chosen["config_file"]))
    config = CellConfig.from_yaml(file, chosen["namespace"])
    parameters = {**overrides(chosen, config), **_renamed(chosen["cell_name"])}
    layout, beside = "cell.rviz", []
    started: list[Action] = []
    if planner is not None:
        planning = planner(chosen, config)
        layout, beside = "moveit.rviz", [_plain(planning.parameters)]
        started.append(_node(chosen, MOVE_GROUP, "move_group", parameters=beside))
        if PLANNING in installed:
            started.append(_scene_publisher(chosen, planning.scene, beside))
    if chosen.get("start_cell", "true") == "true":
        started.extend(
            _cell(chosen, file, config, parameters, "robot_state_publisher" in installed)
        )
    if chosen["use_rviz"] == "true":
        path = Path(get_package_share_directory("multipanda_py")) / "config/layouts" / layout
        started.append(_node(chosen, "rviz2", arguments=["-d", str(path)], parameters=beside))
    return started


def _scene_publisher(chosen: Mapping[str, str], scene: str, parameters: list[Any]) -> Node:
    """Return what tells ``move_group`` once what is in the way; it takes a file, for so long."""
    with tempfile.NamedTemporaryFile("w", suffix=".scene", delete=False) as file:
        file.write(scene)
    remove = OpaqueFunction(function=lambda _: Path(file.name).unlink(missing_ok=True))
    return _node(
        chosen, PLANNING, SCENE_PUBLISHER,
        parameters=parameters, arguments=[file.name], on_exit=remove,
    )  # fmt: skip


def _renamed(name: str) -> dict[str, Any]:
    """Return the parameter that gives a cell another name; none for an empty one.

    Raises:
        ConfigurationError: If no cell can have that name.
    """
    if not name:
        return {}
    CellConfig.from_dict({"cell": {"name": name}, "arms": {"arm": {}}})
    return {"cell.name": ParameterValue(name, value_type=str)}


def _plain(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of which long texts are texts, whatever they look like as YAML."""
    return {
        name: ParameterValue(value, value_type=str) if str(value).startswith("<?xml") else value
        for name, value in parameters.items()
    }


def _cell(
    chosen: Mapping[str, str],
    file: str,
    config: CellConfig,
    parameters: Mapping[str, Any],
    has_publisher: bool,
) -> list[Action]:
    """Return the controller and, where it is installed, the publisher of its transforms."""
    # The node sends /tf itself where nobody else can, or where the cell says how often.
    elsewhere = (
        has_publisher
        and "tf_rate" not in config.cell.model_fields_set
        and "cell.tf_rate" not in parameters
    )
    silent = {"cell.tf_rate": 0.0} if elsewhere else {}
    own = [file, {**silent, **parameters}]
    started: list[Action] = [
        _node(chosen, "multipanda_py", "multimode_controller", parameters=own, on_exit=_end_all)
    ]
    if elsewhere:
        urdf = ParameterValue(cell_urdf(describe_arms(config), config.cell.name), value_type=str)
        described = [{"robot_description": urdf}]
        started.append(_node(chosen, "robot_state_publisher", parameters=described))
    return started


def _end_all(event: Any, context: LaunchContext) -> list[Action]:
    """Return the actions that end the launch after its cell.

    Raises:
        LoopError: If the cell has failed. The launch then ends everything and returns 1.
    """
    if event.returncode and not context.is_shutdown:
        code = event.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
        raise LoopError(f"multimode_controller {how}: the launch ends")
    return [Shutdown(reason="the cell has ended")]


def _node(chosen: Mapping[str, str], package: str, program: str = "", **more: Any) -> Node:
    """Return a node that ends with the launch, also where that is killed or fails half-way."""
    ends_with_launch = "setpriv --pdeathsig INT --" if shutil.which("setpriv") else None
    return Node(
        package=package,
        executable=program or package,
        exec_name=program or package,  # else launch calls it by its prefix
        namespace=chosen["namespace"],
        output="screen",
        prefix=ends_with_launch,
        **more,
    )
