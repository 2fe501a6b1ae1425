# SPDX-License-Identifier: Apache-2.0
"""Names of the ROS nodes that stand for a cell as a whole."""

from __future__ import annotations

NODE = "multimode_controller"
"""Unless it is remapped; a cell file's parameters are meant for it."""
STOP_SUFFIX = "_stop"
"""What the node that serves ``stop`` has behind that name."""
NODES = (NODE, f"{NODE}{STOP_SUFFIX}", "robot_state_publisher", "rviz2")
"""All in the cell's namespace, those that the launch files start beside it too."""


def may_reach_node(key: str) -> bool:
    """Return whether the top key of a parameter file may mean the node, in some namespace."""
    return key.rsplit("/", 1)[-1] in ("**", "*", NODE)
