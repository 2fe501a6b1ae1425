# SPDX-License-Identifier: Apache-2.0
"""Names of the ROS nodes that stand for a cell as a whole, and of namespaces."""

from __future__ import annotations

import re

from multipanda_py.exceptions import ConfigurationError

NODE = "multimode_controller"
"""Unless it is remapped; a cell file's parameters are meant for it."""
STOP_SUFFIX = "_stop"
"""What the node that serves ``stop`` has behind that name."""
SELF_CHECK_SUFFIX = "_self_check"
"""Suffix of the node that checks the responsiveness of that node."""
TASKS = "task_runner"
"""The node that does tasks."""
CAMERAS = "scene_cameras"
"""The node that sends pictures of the simulated scene."""
NODES = (NODE, f"{NODE}{STOP_SUFFIX}", f"{NODE}{SELF_CHECK_SUFFIX}", TASKS, CAMERAS,
         "robot_state_publisher", "rviz2")  # fmt: skip
"""All in the cell's namespace, those that the launch files start beside it too."""
_NAMESPACE = re.compile(r"/?([A-Za-z_]\w*(/[A-Za-z_]\w*)*/?)?", re.ASCII)


def may_reach_node(key: str) -> bool:
    """Return whether the top key of a parameter file may mean the node, in some namespace."""
    return key.rsplit("/", 1)[-1] in ("**", "*", NODE)


def refuse_namespace(name: str) -> None:
    """Refuse what can be no namespace, which only the processes that are started would say.

    Raises:
        ConfigurationError: If it is none.
    """
    if not _NAMESPACE.fullmatch(name) or "__" in name:
        raise ConfigurationError(
            f"namespace: got {name!r}, allowed names of letters, digits and single _, none of "
            "which begins with a digit, with / between them; nothing is started"
        )
