# SPDX-License-Identifier: Apache-2.0
"""Actions and services of the grippers."""

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
from multipanda_py.robots.gripper import Action, Gripper, GripperMotion, GripperResult, Outcome
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode, PlainActionServer, ThrottledLog
from multipanda_py.ros.node.running import every
from multipanda_py.ros.topics.targets import Targets


class GripperAction(NamedTuple):
    """Functions that connect an action type to a gripper.

    Attributes:
        kind: Type of the action.
        start: Function that starts the motion of a goal.
        feedback: Function that returns the feedback message of a motion.
        result: Function that returns the result message of a motion.
        refused: Function that converts the reason of a rejection to the result message.
        accept: Function that accepts or rejects a goal before it starts.
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
    """Unfinished goals of one gripper. A newer command of any action or service replaces them.

    Args:
        node: Node that offers the actions and logs aborted goals.
        gripper: Gripper that executes the goals.
        note_abort: Function that receives the reason of an aborted goal.

    Thread: executor.
    """

    def __init__(
        self, node: GuardedNode, gripper: Gripper, note_abort: Callable[[str], None]
    ) -> None:
        self._node, self._gripper, self._note_abort = node, gripper, note_abort
        self._open: list[_Goal] = []
        self._reported = ThrottledLog()

    def offer(self, name: str, action: GripperAction) -> None:
        """Create the server of an action, such as ``left/gripper/gripper_action``."""

        def start(handle: Any) -> None:
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
            execute_callback=start,
            goal_callback=action.accept,
            cancel_callback=self._cancel,
        )

    def poll(self) -> None:
        """Answer finished goals, and publish feedback of unfinished ones."""
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
            self._note_abort(f"{goal.name}: {result.text}")
            # Log an equal reason once, because clients may send goals as a stream.
            if news := self._reported.new_text(result.text):
                self._node.get_logger().warning(f"{goal.name}: {news}")
        goal.server.finish(goal.handle, how, goal.action.result(goal.motion, result))

    def _cancel(self, handle: Any) -> CancelResponse:
        for goal in self._open:
            if goal.handle.goal_id == handle.goal_id and not goal.motion.done:
                self._gripper.stop()
                return CancelResponse.ACCEPT
        return CancelResponse.REJECT


PERIOD = 0.05
"""Period at which the grippers are polled [s]."""
DEFAULT_SPEED = 0.1
"""Speed at which the width changes [m/s]; the messages contain none."""
CLOSE_FORCE = 20.0
"""Grasp force of the service ``close`` [N]."""
ACTION_NAMES = ("gripper/gripper_action", "gripper/gripper_cmd")
"""Two names of one action: the name of this package and the one that MoveIt expects."""
_WIDTH_TOLERANCE = 1e-4  # Difference up to which two widths count as equal [m].
_ARRIVAL_TOLERANCE = 1e-3  # Maximum distance from the requested width at the goal [m].


class GripperServers:
    """Interfaces ``<arm>/gripper/...`` of every arm with a gripper. Thread: executor.

    Args:
        targets: Target topics, whose ``last_reason`` stores why a goal was rejected or aborted.
        whole_width: Names of further actions of each arm, as in franka_ros2. Their goals are half
            the width; their feedback and result are the whole width.

    Attributes:
        hands: Interfaces of the gripper, by arm.
    """

    def __init__(
        self, node: GuardedNode, cell: Cell, targets: Targets, whole_width: Sequence[str] = ()
    ) -> None:
        arms = [name for name, arm in cell.config.arms.items() if arm.gripper]
        self.hands = {arm: Hand(node, cell, arm, targets, whole_width) for arm in arms}
        if self.hands:
            every(node, PERIOD, self._tick)

    def _tick(self) -> None:
        for hand in self.hands.values():
            hand.poll()


class Hand:
    """Interfaces ``gripper_action``, ``homing``, ``open``, ``close`` and ``stop`` of one gripper.

    The position of the action is that of one finger joint, half the width [m], as in MoveIt. With
    ``max_effort`` above zero and a width below the present one, the gripper grasps with that force
    [N], otherwise it moves.

    Args:
        targets: Target topics, whose ``last_reason`` stores why a goal was rejected or aborted.
        whole_width: Names of further actions, whose feedback and result are the whole width.

    Attributes:
        goals: Unfinished goals of its actions.
    """

    def __init__(
        self,
        node: GuardedNode,
        cell: Cell,
        arm: str,
        targets: Targets,
        whole_width: Sequence[str],
    ) -> None:
        self._cell, self._arm, self._logger = cell, arm, node.get_logger()
        self._targets = targets
        self._gripper: Gripper = cell.gripper(arm)
        self._speed = min(DEFAULT_SPEED, self._gripper.description.speed)
        self._problem, self._reported = "", ThrottledLog()
        self.goals = GripperGoals(
            node, self._gripper, partial(targets.last_reason.__setitem__, f"{arm} gripper abort")
        )
        commands: dict[str, Callable[[], GripperMotion]] = {
            "homing": self._gripper.homing,
            "open": self._open,
            "close": self._close,
        }
        for name, start in commands.items():
            node.serve(Trigger, f"{arm}/gripper/{name}", partial(self._trigger, name, start))
        node.serve(Trigger, f"{arm}/gripper/stop", self.stop)
        for names, answered_part in ((ACTION_NAMES, 0.5), (whole_width, 1.0)):
            action = GripperAction(
                GripperCommand,
                self._start,
                partial(self._feedback, answered_part),
                partial(self._result, answered_part),
                self._refused,
                self._accept,
            )
            for name in names:
                self.goals.offer(f"{arm}/{name}", action)

    def stop(self, request: Any, response: Any) -> Work:
        """Stop the fingers in place and answer, as a generator that waits for the gripper."""
        return self._trigger("stop", self._gripper.stop, request, response)

    def poll(self) -> None:
        """Update the goals, and log a problem of the gripper once."""
        self.goals.poll()
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
            text = (
                f"closed at {result.width:.4f} m, no object is grasped" if closed else result.text
            )
            response.success, response.message = result.succeeded or closed, text
        reply = f"{self._arm}/gripper/{name}: {response.message}"
        # Two calls: rclpy allows only one severity for each place in the code.
        if response.success:
            self._logger.info(reply)
        else:
            self._logger.warning(reply)

    def _accept(self, goal: Any) -> GoalResponse:
        position, effort = goal.command.position, goal.command.max_effort
        can = self._gripper.description
        min_value, largest = can.lower, self._gripper.state().max_width / 2.0
        if not (
            math.isfinite(position)
            and min_value - _WIDTH_TOLERANCE <= position <= largest + _WIDTH_TOLERANCE
        ):
            allowed = f"[{min_value:g}, {largest:g}] m for one finger"
            fault = f"position: got {position:g}, allowed {allowed}"
        elif not (math.isfinite(effort) and 0.0 <= effort <= can.max_force):
            fault = f"max_effort: got {effort:g}, allowed [0, {can.max_force:g}] N, 0 to move"
        else:
            return GoalResponse.ACCEPT
        self._refuse(f"goal rejected: {fault}")
        return GoalResponse.REJECT

    def _refuse(self, reason: str) -> None:
        owner = f"{self._arm} gripper"
        self._cell.rejected[owner] += 1
        self._targets.last_reason[owner] = reason
        if news := self._reported.new_text(reason):
            self._logger.warning(f"{self._arm}/gripper/gripper_action: {news}")

    def _refused(self, reason: str) -> Any:
        self._refuse(reason)
        return GripperCommand.Result()

    def _start(self, goal: Any) -> GripperMotion:
        command, state = goal.command, self._gripper.state()
        min_value = self._gripper.description.min_width
        width = min(max(2.0 * command.position, min_value), state.max_width)
        if command.max_effort > 0.0 and width < state.width - _WIDTH_TOLERANCE:
            return self._gripper.grasp(width, self._speed, command.max_effort)
        return self._gripper.move(width, self._speed)

    def _feedback(self, answered_part: float, motion: GripperMotion) -> Any:
        state = self._gripper.state()
        feedback = GripperCommand.Feedback(position=answered_part * state.width)
        feedback.effort = motion.command.force if state.is_grasped else 0.0
        return feedback

    def _result(self, answered_part: float, motion: GripperMotion, result: GripperResult) -> Any:
        command = motion.command
        held = command.action is Action.GRASP and self._gripper.state().is_grasped
        far = abs(result.width - command.width) > _ARRIVAL_TOLERANCE
        message = GripperCommand.Result(
            position=answered_part * result.width, reached_goal=result.succeeded
        )
        message.effort = command.force if held else 0.0
        message.stalled = held or (result.outcome is Outcome.UNSUCCESSFUL and far)
        return message
