# SPDX-License-Identifier: Apache-2.0
"""The actions of franka_ros2's ``franka_gripper``: homing, move, grasp."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from rclpy.action import CancelResponse, GoalResponse
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError, shortened
from multipanda_py.grippers.gripper import Gripper, GripperMotion
from multipanda_py.ros.deferred_responses import PlainActionServer, Work
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.running import every

PERIOD = 0.05
"""Between two looks at what the hands do [s]."""


class _Goal(NamedTuple):
    server: PlainActionServer
    kind: Any
    handle: Any
    motion: GripperMotion


class FrankaHandActions:
    """``<arm>/franka_gripper/{homing,move,grasp,stop}`` of one hand.

    The newest command counts, whichever interface it came by.

    Args:
        node: Offers them.
        cell: The cell.
        arm: The arm that carries the hand.

    Raises:
        ImportError: If franka_msgs is not installed.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, arm: str) -> None:
        from franka_msgs.action import Grasp, Homing, Move

        self._gripper: Gripper = cell.gripper(arm)
        self._goals: list[_Goal] = []
        self._servers: dict[str, PlainActionServer] = {}
        for name, kind, start in (
            ("homing", Homing, self._homing),
            ("move", Move, self._move),
            ("grasp", Grasp, self._grasp),
        ):
            self._servers[name] = PlainActionServer(
                node,
                kind,
                f"{arm}/franka_gripper/{name}",
                execute_callback=partial(self._begin, name, kind, start),
                goal_callback=lambda _: GoalResponse.ACCEPT,
                cancel_callback=self._cancel,
            )
        node.serve(Trigger, f"{arm}/franka_gripper/stop", self._stop)
        every(node, PERIOD, self._look)

    def _homing(self, goal: Any) -> GripperMotion:
        return self._gripper.homing()

    def _move(self, goal: Any) -> GripperMotion:
        return self._gripper.move(goal.width, goal.speed)

    def _grasp(self, goal: Any) -> GripperMotion:
        wide = goal.epsilon
        return self._gripper.grasp(goal.width, goal.speed, goal.force, wide.inner, wide.outer)

    def _stop(self, request: Any, response: Any) -> Work:
        motion = self._gripper.stop()
        while (result := motion.result) is None:
            yield
        response.success, response.message = result.succeeded, result.text

    def _begin(
        self, name: str, kind: Any, start: Callable[[Any], GripperMotion], handle: Any
    ) -> None:
        """Begin a goal; what went on is aborted."""
        server = self._servers[name]
        try:
            self._goals.append(_Goal(server, kind, handle, start(handle.request)))
        except MultipandaError as error:
            result = kind.Result(success=False, error=shortened(str(error)))
            server.finish(handle, "abort", result)

    def _cancel(self, handle: Any) -> CancelResponse:
        for goal in self._goals:
            if goal.handle.goal_id == handle.goal_id and not goal.motion.done:
                self._gripper.stop()
                return CancelResponse.ACCEPT
        return CancelResponse.REJECT

    def _look(self) -> None:
        """Answer what is done, and tell how the rest is doing."""
        goals, self._goals = self._goals, []
        for goal in goals:
            result = goal.motion.result
            if result is None:
                self._goals.append(goal)
                width = self._gripper.state().width
                goal.handle.publish_feedback(goal.kind.Feedback(current_width=width))
                continue
            text = "" if result.succeeded else shortened(result.text)
            message = goal.kind.Result(success=result.succeeded, error=text)
            ended = "canceled" if goal.handle.is_cancel_requested else "abort"
            goal.server.finish(goal.handle, "succeed" if result.succeeded else ended, message)
