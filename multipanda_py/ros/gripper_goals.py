# SPDX-License-Identifier: Apache-2.0
"""Goals of a hand's actions, whatever their types are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rclpy.action import CancelResponse, GoalResponse

from multipanda_py.exceptions import MultipandaError
from multipanda_py.grippers.gripper import Gripper, GripperMotion, GripperResult
from multipanda_py.ros.action_server import PlainActionServer
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.said_once import SaidOnce


class GripperAction(NamedTuple):
    """What an action means to a hand.

    Attributes:
        kind: Its type.
        start: Begins what a goal asks for.
        feedback: Returns the message of how a motion is doing.
        result: Returns that of how it ended.
        refused: Returns that of a goal which cannot be executed, from the reason.
        accept: Judges a goal before it is begun.
    """

    kind: Any
    start: Callable[[Any], GripperMotion]
    feedback: Callable[[GripperMotion], Any]
    result: Callable[[GripperMotion, GripperResult], Any]
    refused: Callable[[str], Any]
    accept: Callable[[Any], GoalResponse] = lambda _: GoalResponse.ACCEPT


class _Goal(NamedTuple):
    name: str
    action: GripperAction
    server: PlainActionServer
    handle: Any
    motion: GripperMotion


class GripperGoals:
    """The goals of one hand that are not answered yet.

    The newest command counts, by whichever action or service it came.

    Args:
        node: Offers the actions, and logs what is aborted.
        gripper: The hand.
        keep: Is told why a goal was aborted: not every action's result has words.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, gripper: Gripper, keep: Callable[[str], None]) -> None:
        self._node, self._gripper, self._keep = node, gripper, keep
        self._open: list[_Goal] = []
        self._said = SaidOnce()

    def offer(self, name: str, action: GripperAction) -> None:
        """Offer an action by a name."""

        def begin(handle: Any) -> None:
            try:
                motion = action.start(handle.request)
            except MultipandaError as error:
                server.finish(handle, "abort", action.refused(str(error)))
            else:
                self._open.append(_Goal(name, action, server, handle, motion))

        server = PlainActionServer(
            self._node,
            action.kind,
            name,
            execute_callback=begin,
            goal_callback=action.accept,
            cancel_callback=self._cancel,
        )

    def look(self) -> None:
        """Answer what is done, and tell how the rest is doing."""
        goals, self._open = self._open, []
        for goal in goals:
            result = goal.motion.result
            if result is None:
                self._open.append(goal)
                goal.handle.publish_feedback(goal.action.feedback(goal.motion))
            else:
                self._end(goal, result)

    def _end(self, goal: _Goal, result: GripperResult) -> None:
        if result.succeeded:
            how = "succeed"
        elif goal.handle.is_cancel_requested:
            how = "canceled"
        else:
            how = "abort"
            self._keep(f"{goal.name}: {result.text}")
            if news := self._said.news(result.text):  # clients send goals at the rate of a stream
                self._node.get_logger().warning(f"{goal.name}: {news}")
        goal.server.finish(goal.handle, how, goal.action.result(goal.motion, result))

    def _cancel(self, handle: Any) -> CancelResponse:
        for goal in self._open:
            if goal.handle.goal_id == handle.goal_id and not goal.motion.done:
                self._gripper.stop()
                return CancelResponse.ACCEPT
        return CancelResponse.REJECT
