# SPDX-License-Identifier: Apache-2.0
"""All files that MoveIt 2 takes, of any cell, and the parameters of its nodes made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import describe_arms, describe_objects
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.moveit.controllers import simple_controllers, switching_controllers
from multipanda_py.moveit.groups import Groups
from multipanda_py.moveit.planning import (
    PILZ,
    PILZ_CARTESIAN_LIMITS,
    joint_limits,
    kinematics,
    ompl,
    pilz,
)
from multipanda_py.moveit.scene import scene_text
from multipanda_py.moveit.srdf import cell_srdf
from multipanda_py.robots.urdf import cell_urdf

URDF, SRDF, SCENE = "cell.urdf", "cell.srdf", "cell.scene"
KINEMATICS, LIMITS = "kinematics.yaml", "joint_limits.yaml"
CARTESIAN_LIMITS = "pilz_cartesian_limits.yaml"
CONTROLLERS = {"ros_control": "ros_control_controllers.yaml", "simple": "moveit_controllers.yaml"}
"""Files by how MoveIt finds whom to send trajectories to."""
PLANNERS = {name: f"{name}_planning.yaml" for name in ("ompl", PILZ)}
"""Files by planning pipeline, the default one first."""
_HEADER = "# Written by multipanda moveit from the cell {name}.\n"


def moveit_files(config: CellConfig) -> dict[str, str]:
    """Return the texts of all files by name.

    Raises:
        ConfigurationError: If the cell has no controllet that could follow plans, or a name in it
            means something else to MoveIt.
    """
    groups, name = Groups(config), config.cell.name
    tables = {
        KINEMATICS: kinematics(groups),
        LIMITS: joint_limits(groups),
        CARTESIAN_LIMITS: {"cartesian_limits": PILZ_CARTESIAN_LIMITS},
        PLANNERS["ompl"]: ompl(groups),
        PLANNERS[PILZ]: pilz(),
        CONTROLLERS["simple"]: simple_controllers(groups),
        CONTROLLERS["ros_control"]: switching_controllers(),
    }
    header = _HEADER.format(name=name)
    texts = {
        file: header + yaml.safe_dump(table, sort_keys=False, width=99)
        for file, table in tables.items()
    }
    arms = describe_arms(config)
    floor = min(0.0, *(float(arm.position_base_in_world[2]) for arm in arms))
    there = [thing for thing in describe_objects(config) if thing.present]
    return {
        URDF: cell_urdf(arms, name),
        SRDF: cell_srdf(groups, name),
        SCENE: scene_text(there, floor),
        **texts,
    }


def read_files(folder: Path) -> dict[str, str]:
    """Return the texts of all files of a folder that the command has written.

    Raises:
        ConfigurationError: If one is missing, which says all of them.
    """
    names = [URDF, SRDF, SCENE, KINEMATICS, LIMITS, CARTESIAN_LIMITS]
    names += [*CONTROLLERS.values(), *PLANNERS.values()]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise ConfigurationError(
            f"{folder}: got no {', '.join(missing)}, allowed what `multipanda moveit` writes"
        )
    return {name: (folder / name).read_text(encoding="utf-8") for name in names}


def move_group_parameters(
    files: Mapping[str, str], controllers_by: str, namespace: str = ""
) -> dict[str, Any]:
    """Return the parameters of ``move_group``, and of RViz beside it.

    Args:
        files: Texts by name.
        controllers_by: A key of :data:`CONTROLLERS`.
        namespace: Of the cell.
    """
    tables = {name: yaml.safe_load(text) for name, text in files.items() if name.endswith("yaml")}
    parameters: dict[str, Any] = {
        "robot_description": files[URDF],
        "robot_description_semantic": files[SRDF],
        "robot_description_kinematics": tables[KINEMATICS],
        "robot_description_planning": {**tables[LIMITS], **tables[CARTESIAN_LIMITS]},
        "planning_pipelines": list(PLANNERS),
        "default_planning_pipeline": "ompl",
        "publish_robot_description_semantic": True,
        **{pipeline: tables[file] for pipeline, file in PLANNERS.items()},
        **tables[CONTROLLERS[controllers_by]],
    }
    # A capability is loaded by move_group, not by the planner that brings it.
    parameters["capabilities"] = parameters[PILZ]["capabilities"]
    if "ros_control_namespace" in parameters:
        parameters["ros_control_namespace"] = f"/{namespace.strip('/')}"
    return parameters
