# SPDX-License-Identifier: Apache-2.0
"""The hand of an arm of a running node."""

from __future__ import annotations

from typing import Any

from control_msgs.action import GripperCommand as GripperAction
from rclpy.action import ActionClient
from std_srvs.srv import Trigger

from multipanda_py.exceptions import NodeRefused
from multipanda_py.robots.parallel_gripper import ParallelGripper
from multipanda_py.ros.node_link import NodeLink
from multipanda_py.ros.service_call import Call

MOVES = 20.0
"""Time for the fingers to come to where they are to be [s]."""


class NodeHand:
    """Ask for motions of one hand.

    Args:
        link: To the node; not started yet.
        root: Namespace of the cell, with a slash in front, or nothing.
        arm: Name of the arm.
        description: What the hand can do.

    Attributes:
        description: Likewise.

    Thread: one.
    """

    def __init__(self, link: NodeLink, root: str, arm: str, description: ParallelGripper) -> None:
        self.description = description
        self._link, self._place = link, f"{root}/{arm}/gripper"
        self._action = ActionClient(link.node, GripperAction, f"{self._place}/gripper_action")
        link.offer(Trigger, f"{self._place}/close")

    def move(self, width: float) -> HandGoal:
        """Begin to take the fingers to a width [m]."""
        goal = GripperAction.Goal()
        goal.command.position = width / 2.0  # of one finger
        return HandGoal(self._action, goal, f"{self._place}: move to {width:.4f} m")

    def grasp(
        self, width: float, *, force: float = 0.0, epsilon_outer: float = 0.0
    ) -> Call[object]:
        """Begin to close them on whatever is there, with the force that the node has for it."""

        def read(said: Any) -> object:
            if not said.success:
                raise NodeRefused(f"{self._place}: {said.message}")
            return said

        return self._link.call(f"{self._place}/close", Trigger.Request(), read, MOVES)


class HandGoal:
    """A goal of a hand, until it is known whether it is taken.

    Args:
        client: Of the action.
        goal: What is asked.
        what: The same in words.
    """

    def __init__(self, client: Any, goal: Any, what: str) -> None:
        self._what = what
        self._future = client.send_goal_async(goal)

    def look(self) -> object | None:
        """Return the goal's handle, or None while there is none.

        Raises:
            NodeRefused: If the hand does not take it; why is in the arm's diagnostics.
        """
        if not self._future.done():
            return None
        handle: object = self._future.result()
        if not getattr(handle, "accepted", False):
            raise NodeRefused(f"{self._what}: the hand has refused it")
        return handle
