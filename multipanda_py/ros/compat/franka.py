# SPDX-License-Identifier: Apache-2.0
"""What clients of franka_ros2 look for, by its names, as far as franka_msgs is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from multipanda_py.cell import Cell
from multipanda_py.robots.franka import INERTIALS
from multipanda_py.ros.compat.franka_services import FrankaHandActions, FrankaServices
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.services.arms import RecoveryServices
from multipanda_py.ros.services.grippers import GripperServers

SECTION = "franka"
"""Of settings that real and simulated arms of Franka have, and other simulated ones too."""
GRIPPER_ACTIONS = ("franka_gripper/gripper_action",)
MISSING = (
    "franka_names: franka_msgs is not installed: its services, actions and robot_state are not "
    "offered; topics of standard types are"
)


def franka_arms(cell: Cell) -> list[str]:
    """Return the arms that clients of franka_ros2 may know."""
    return [
        name
        for name, arm in cell.config.arms.items()
        if arm.section == SECTION and arm.robot.name in INERTIALS
    ]


class FrankaNames:
    """Services and actions that need franka_msgs.

    Args:
        node: Offers them.
        cell: The cell.
        robots: Nodes whose parameters are the settings of the robots, by arm.
        recovery: Recovers arms.
        grippers: Interfaces of the hands by our names.
    """

    def __init__(
        self,
        node: GuardedNode,
        cell: Cell,
        robots: Mapping[str, GuardedNode],
        recovery: RecoveryServices,
        grippers: GripperServers,
    ) -> None:
        if find_spec("franka_msgs") is None:
            node.get_logger().warning(MISSING)
            return
        arms = franka_arms(cell)
        self._services = FrankaServices(node, {arm: robots[arm] for arm in arms}, recovery)
        hands = grippers.hands
        self._hands = [
            FrankaHandActions(node, cell, arm, hands[arm]) for arm in arms if arm in hands
        ]
