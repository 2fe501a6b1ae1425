# SPDX-License-Identifier: Apache-2.0
"""Action server that does not block the executor; see :mod:`.deferred_responses`."""

from __future__ import annotations

from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse

from multipanda_py.exceptions import shortened
from multipanda_py.ros.node.bounded_messages import (
    MAX_REQUEST,
    MessageSize,
    bounded_action,
    too_large,
)
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.qos import REQUEST_QOS


def refuse_goal(result: Any, reason: str) -> Any:
    """Fill in the reason in the result of an aborted goal, if its type has a field for it."""
    for field in ("error_string", "return_message", "error"):
        if hasattr(result, field):
            setattr(result, field, shortened(reason))
    if hasattr(result, "INVALID_GOAL"):
        result.error_code = result.INVALID_GOAL
    return result


class PlainActionServer(ActionServer):
    """Action server whose accepted goals occupy no task of the executor.

    ``execute_callback`` starts a goal and returns; :meth:`finish` ends it. Only sending the result
    is a task of the executor.

    Args:
        node: Node that offers the action.
        kind: Type of the action.
        name: Name of the action.
        limit: Maximum size of a goal.
        callbacks: Callbacks of :class:`rclpy.action.ActionServer`.

    Attributes:
        unsent: Number of answers that the executor has not sent yet.
    """

    def __init__(
        self,
        node: GuardedNode,
        kind: Any,
        name: str,
        limit: MessageSize = MAX_REQUEST,
        **callbacks: Any,
    ) -> None:
        self._guard, self._name, self._kind = node.guard, name, kind
        self.unsent = 0
        accept, cancel = callbacks["goal_callback"], callbacks["cancel_callback"]
        callbacks["goal_callback"] = lambda goal: (
            GoalResponse.ACCEPT  # A rejection has no text, so the goal is aborted later.
            if too_large(goal)
            else self._guard.call(name, accept, goal) or GoalResponse.REJECT
        )
        callbacks["cancel_callback"] = lambda handle: (
            self._guard.call(name, cancel, handle) or CancelResponse.REJECT
        )
        profiles = {
            f"{of}_service_qos_profile": REQUEST_QOS for of in ("goal", "result", "cancel")
        }
        super().__init__(node, kind, name, **callbacks, **profiles)
        self._action_type = bounded_action(kind, limit)

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:
        """Start an accepted goal. rclpy calls this when the goal is in state executing."""
        if reason := too_large(goal_handle.request):
            self._guard.note_large(self._name, reason)
            result = refuse_goal(self._kind.Result(), f"goal: {reason}")
            self.finish(goal_handle, "abort", result)
            return
        try:
            self._execute_callback(goal_handle)
        except Exception as error:
            self._guard.note(self._name, error)
            self.finish(goal_handle, "abort", self._kind.Result())

    def finish(self, handle: Any, how: str, result: Any) -> None:
        """End a goal by ``succeed``, ``abort`` or ``canceled``, and send its result."""

        def answer(handle: Any) -> Any:
            self.unsent -= 1  # The executor sends the result right after this call.
            getattr(handle, how)()
            return result

        self.unsent += 1
        super().notify_execute(handle, answer)
