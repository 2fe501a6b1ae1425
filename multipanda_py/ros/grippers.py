# SPDX-License-Identifier: Apache-2.0
"""The grippers' action and services."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from control_msgs.action import GripperCommand
from rclpy.action import CancelResponse, GoalResponse
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError
from multipanda_py.gripper_record import Action, Outcome
from multipanda_py.grippers.gripper import (
    Gripper,
    GripperMotion,
    GripperResult,
)
from multipanda_py.ros.deferred_responses import PlainActionServer, Work
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.running import every
from multipanda_py.ros.said_once import SaidOnce
from multipanda_py.ros.targets import Targets

PERIOD = 0.05
"""Between two looks at what the grippers do [s]."""
SPEED = 0.1
"""Of the width, as messages have none [m/s]."""
CLOSE_FORCE = 20.0
"""With which ``close`` holds what it finds [N]."""
ACTIONS = ("gripper/gripper_action", "gripper/gripper_cmd")
"""Names of one action: ours, and that which MoveIt looks for."""
_SAME = 1e-4
_ARRIVED = 1e-3


class GripperServers:
    """``<arm>/gripper/...`` of every arm with a hand. Thread: executor.

    Args:
        node: Offers the interfaces.
        cell: The cell.
        targets: Remembers why a goal was refused, as of any target: diagnostics say it, as neither
            a rejection nor the action's result has words.
        more: Further names of the action, below that of the arm.
    """

    def __init__(
        self, node: GuardedNode, cell: Cell, targets: Targets, more: Sequence[str] = ()
    ) -> None:
        arms = [name for name, arm in cell.config.arms.items() if arm.hand]
        self._hands = [_Hand(node, cell, arm, targets, (*ACTIONS, *more)) for arm in arms]
        if self._hands:
            every(node, PERIOD, self._tick)

    def _tick(self) -> None:
        for hand in self._hands:
            hand.look()


class _GripperGoal(NamedTuple):
    server: PlainActionServer
    handle: Any
    motion: GripperMotion


class _Hand:
    """``gripper_action``, ``homing``, ``open``, ``close`` and ``stop`` of one hand.

    ``gripper_cmd`` is another name of the action. A goal's ``position`` is that of one finger
    joint, half the width [m], as franka_ros2 and MoveIt have it. With ``max_effort`` above zero
    and a width below the present one the hand grasps with that force, within libfranka's default
    tolerance; else it moves. A goal that cannot be executed is rejected, and log and diagnostics
    say why. The newest command counts, whether it came by the action or by a service.
    """

    def __init__(
        self,
        node: GuardedNode,
        cell: Cell,
        arm: str,
        targets: Targets,
        actions: Sequence[str],
    ) -> None:
        self._cell, self._arm, self._logger = cell, arm, node.get_logger()
        self._targets = targets
        self._gripper: Gripper = cell.gripper(arm)
        self._speed = min(SPEED, self._gripper.description.speed)
        self._goals: list[_GripperGoal] = []
        self._problem, self._said = "", SaidOnce()
        self._servers: dict[str, PlainActionServer] = {}
        commands: dict[str, Callable[[], GripperMotion]] = {
            "homing": self._gripper.homing,
            "open": self._open,
            "close": self._close,
            "stop": self._gripper.stop,
        }
        for name, start in commands.items():
            node.serve(Trigger, f"{arm}/gripper/{name}", partial(self._trigger, name, start))
        for action in actions:
            self._servers[action] = PlainActionServer(
                node,
                GripperCommand,
                f"{arm}/{action}",
                execute_callback=partial(self._begin, action),
                goal_callback=self._accept,
                cancel_callback=self._cancel,
            )

    def look(self) -> None:
        """Answer what is done, and tell how the rest is doing."""
        goals, self._goals = self._goals, []
        for goal in goals:
            result = goal.motion.result
            if result is None:
                self._goals.append(goal)
                self._feed_back(goal)
            else:
                self._end(goal, result)
        problem = self._gripper.state().problem
        if problem and problem != self._problem:
            self._logger.warning(problem)
        self._problem = problem

    def _open(self) -> GripperMotion:
        return self._gripper.move(self._gripper.state().max_width, self._speed)

    def _close(self) -> GripperMotion:
        can = self._gripper.description
        force = min(CLOSE_FORCE, can.force)
        return self._gripper.grasp(0.0, self._speed, force, 0.0, can.max_width)

    def _trigger(
        self, name: str, start: Callable[[], GripperMotion], request: Any, response: Any
    ) -> Work:
        try:
            motion = start()
            while (result := motion.result) is None:
                yield
        except MultipandaError as error:
            response.success, response.message = False, str(error)
        else:
            closed = name == "close" and result.outcome is Outcome.UNSUCCESSFUL
            text = f"closed at {result.width:.4f} m, nothing is held" if closed else result.text
            response.success, response.message = result.succeeded or closed, text
        said = f"{self._arm}/gripper/{name}: {response.message}"
        # Two lines: rclpy refuses another severity from the same one.
        if response.success:
            self._logger.info(said)
        else:
            self._logger.warning(said)

    def _accept(self, goal: Any) -> GoalResponse:
        position, effort = goal.command.position, goal.command.max_effort
        can = self._gripper.description
        least, largest = can.lower, self._gripper.state().max_width / 2.0
        if not (math.isfinite(position) and least <= position <= largest + _SAME):
            allowed = f"[{least:g}, {largest:g}] m of one finger"
            fault = f"position: got {position:g}, allowed {allowed}"
        elif not (math.isfinite(effort) and 0.0 <= effort <= can.most_force):
            fault = f"max_effort: got {effort:g}, allowed [0, {can.most_force:g}] N, 0 to move"
        else:
            return GoalResponse.ACCEPT
        self._refuse(f"goal rejected: {fault}")
        return GoalResponse.REJECT

    def _refuse(self, reason: str) -> None:
        whose = f"{self._arm} gripper"
        self._cell.rejected[whose] += 1
        self._targets.last_reason[whose] = reason
        self._logger.warning(f"{self._arm}/gripper/gripper_action: {reason}")

    def _begin(self, action: str, handle: Any) -> None:
        """Begin a goal; what went on is aborted."""
        server = self._servers[action]
        command, state = handle.request.command, self._gripper.state()
        width = min(2.0 * command.position, state.max_width)
        try:
            if command.max_effort > 0.0 and width < state.width - _SAME:
                motion = self._gripper.grasp(width, self._speed, command.max_effort)
            else:
                motion = self._gripper.move(width, self._speed)
        except MultipandaError as error:
            self._refuse(str(error))
            server.finish(handle, "abort", GripperCommand.Result())
            return
        self._goals.append(_GripperGoal(server, handle, motion))

    def _cancel(self, handle: Any) -> CancelResponse:
        for goal in self._goals:
            if goal.handle.goal_id == handle.goal_id and not goal.motion.done:
                self._gripper.stop()
                return CancelResponse.ACCEPT
        return CancelResponse.REJECT

    def _feed_back(self, goal: _GripperGoal) -> None:
        state = self._gripper.state()
        feedback = GripperCommand.Feedback(position=state.width / 2.0)
        feedback.effort = goal.motion.command.force if state.is_grasped else 0.0
        goal.handle.publish_feedback(feedback)

    def _end(self, goal: _GripperGoal, result: GripperResult) -> None:
        command = goal.motion.command
        held = command.action is Action.GRASP and self._gripper.state().is_grasped
        far = abs(result.width - command.width) > _ARRIVED
        message = GripperCommand.Result(position=result.width / 2.0, reached_goal=result.succeeded)
        message.effort = command.force if held else 0.0
        message.stalled = held or (result.outcome is Outcome.UNSUCCESSFUL and far)
        if result.succeeded:
            how = "succeed"
        elif goal.handle.is_cancel_requested:
            how = "canceled"
        else:
            how = "abort"
            if news := self._said.news(result.text):  # clients send goals at the rate of a stream
                self._logger.warning(f"{self._arm}/gripper/gripper_action: {news}")
        goal.server.finish(goal.handle, how, message)
