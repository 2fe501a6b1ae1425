# SPDX-License-Identifier: Apache-2.0
"""The actions of franka_ros2's ``franka_gripper``: homing, move, grasp."""

from __future__ import annotations

from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.exceptions import shortened
from multipanda_py.grippers.gripper import GripperMotion, GripperResult
from multipanda_py.ros.gripper_goals import GripperAction
from multipanda_py.ros.grippers import Hand
from multipanda_py.ros.guard import GuardedNode


class FrankaHandActions:
    """``<arm>/franka_gripper/{homing,move,grasp,stop}`` of one hand.

    Args:
        node: Offers them.
        cell: The cell.
        arm: The arm that carries the hand.
        hand: Its other interfaces; looks after goals.

    Raises:
        ImportError: If franka_msgs is not installed.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, arm: str, hand: Hand) -> None:
        from franka_msgs.action import Grasp, Homing, Move

        self._gripper = cell.gripper(arm)
        for name, kind, start in (
            ("homing", Homing, self._homing),
            ("move", Move, self._move),
            ("grasp", Grasp, self._grasp),
        ):

            def feedback(motion: GripperMotion, kind: Any = kind) -> Any:
                return kind.Feedback(current_width=self._gripper.state().width)

            def result(motion: GripperMotion, found: GripperResult, kind: Any = kind) -> Any:
                text = "" if found.succeeded else shortened(found.text)
                return kind.Result(success=found.succeeded, error=text)

            def refused(reason: str, kind: Any = kind) -> Any:
                return kind.Result(success=False, error=shortened(reason))

            action = GripperAction(kind, start, feedback, result, refused)
            hand.goals.offer(f"{arm}/franka_gripper/{name}", action)
        node.serve(Trigger, f"{arm}/franka_gripper/stop", hand.stop)

    def _homing(self, goal: Any) -> GripperMotion:
        return self._gripper.homing()

    def _move(self, goal: Any) -> GripperMotion:
        return self._gripper.move(goal.width, goal.speed)

    def _grasp(self, goal: Any) -> GripperMotion:
        wide = goal.epsilon
        return self._gripper.grasp(goal.width, goal.speed, goal.force, wide.inner, wide.outer)
