# SPDX-License-Identifier: Apache-2.0
"""Services and actions with the names of franka_ros2, if franka_msgs is installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from multipanda_py.cell import Cell
from multipanda_py.robots.franka import INERTIALS
from multipanda_py.ros.compat.franka_services import FrankaHandActions, FrankaServices
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.services.arms import RecoveryServices
from multipanda_py.ros.services.grippers import GripperServers

SETTINGS_SECTION = "franka"
"""Settings section of real and simulated Franka arms; other simulated arms may have it too."""
GRIPPER_ACTIONS = ("franka_gripper/gripper_action",)
MISSING_MESSAGE = (
    "franka_names: franka_msgs is not installed. Its services, actions and robot_state are not "
    "offered, only topics of standard types"
)


def franka_arms(cell: Cell) -> list[str]:
    """Return the arms for which names of franka_ros2 are offered."""
    return [
        name
        for name, arm in cell.config.arms.items()
        if arm.section == SETTINGS_SECTION and arm.robot.name in INERTIALS
    ]


class FrankaNames:
    """Services and actions that need franka_msgs.

    Args:
        node: Node that offers them.
        cell: Cell of the arms.
        robots: Nodes whose parameters are the settings of the robots, by arm.
        recovery: Services that recover arms.
        grippers: Gripper interfaces with the names of this package.
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
            node.get_logger().warning(MISSING_MESSAGE)
            return
        arms = franka_arms(cell)
        self._services = FrankaServices(node, {arm: robots[arm] for arm in arms}, recovery)
        hands = grippers.hands
        self._hands = [
            FrankaHandActions(node, cell, arm, hands[arm]) for arm in arms if arm in hands
        ]
