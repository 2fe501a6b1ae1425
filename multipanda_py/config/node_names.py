# SPDX-License-Identifier: Apache-2.0
"""Names of the ROS nodes of a cell, and checks of namespaces."""

from __future__ import annotations

import re

from multipanda_py.exceptions import ConfigurationError

NODE = "multimode_controller"
"""Default name of the cell's node. Sections of a parameter file with this name configure it."""
STOP_SUFFIX = "_stop"
"""Suffix of the name of the node that serves ``stop``."""
SELF_CHECK_SUFFIX = "_self_check"
"""Suffix of the name of the node that checks that the cell's node responds."""
TASK_NODE = "task_runner"
"""Name of the node that runs tasks."""
CAMERA_NODE = "scene_cameras"
"""Name of the node that publishes images of the simulated scene."""
NODES = (NODE, f"{NODE}{STOP_SUFFIX}", f"{NODE}{SELF_CHECK_SUFFIX}", TASK_NODE, CAMERA_NODE,
         "robot_state_publisher", "rviz2")  # fmt: skip
"""All node names in the cell's namespace, including those that the launch files start."""
_NAMESPACE = re.compile(r"/?([A-Za-z_]\w*(/[A-Za-z_]\w*)*/?)?", re.ASCII)


def may_reach_node(key: str) -> bool:
    """Return True if a top-level key of a parameter file can match the cell's node."""
    return key.rsplit("/", 1)[-1] in ("**", "*", NODE)


def refuse_namespace(name: str) -> None:
    """Check a namespace before any process starts; otherwise only the processes would report it.

    Raises:
        ConfigurationError: If it is not a valid ROS namespace.
    """
    if not _NAMESPACE.fullmatch(name) or "__" in name:
        raise ConfigurationError(
            f"namespace: got {name!r}, allowed names of letters, digits and single _ that do not "
            "begin with a digit, joined by /. No process was started"
        )
