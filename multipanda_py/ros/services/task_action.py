# SPDX-License-Identifier: Apache-2.0
"""Action that executes tasks, with the action type of BehaviorTree.CPP."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from rclpy.action import CancelResponse, GoalResponse
from rclpy.clock import Clock
from rclpy.clock_type import ClockType

from multipanda_py.cell.tasks import TaskRunner
from multipanda_py.cell.tasks.execution import TaskEvent
from multipanda_py.exceptions import MultipandaError, TaskFailed, shortened
from multipanda_py.ros.node.deferred_responses import PERIOD
from multipanda_py.ros.node.guard import GuardedNode, PlainActionServer
from multipanda_py.ros.node.qos import LATCHED

_LEVELS = {"failed": DiagnosticStatus.ERROR, "aborted": DiagnosticStatus.WARN}


class TaskState:
    """Latched topic ``task_runner/state`` of type ``DiagnosticStatus``.

    The field ``message`` is the newest event. The field ``values`` has ``state``, ``subtask``,
    ``progress`` (0 to 1) and ``reason`` of a failure or stop.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: str) -> None:
        self._cell, self._words = cell, ""
        topic = node.resolve_topic_name("~/state")
        self._publisher = node.create_publisher(DiagnosticStatus, topic, LATCHED)

    def send(self, runner: TaskRunner, event: TaskEvent | None) -> None:
        """Publish the state of a task, with or without a new event."""
        if event is not None:
            self._words = str(event).lstrip()
        values = {
            "state": runner.state,
            "subtask": runner.subtask,
            "progress": f"{runner.progress:.3f}",
            "reason": runner.reason,
        }
        self._publisher.publish(
            DiagnosticStatus(
                level=_LEVELS.get(runner.state, DiagnosticStatus.OK),
                name=runner.task.name,
                message=self._words,
                hardware_id=self._cell,
                values=[KeyValue(key=key, value=value) for key, value in values.items()],
            )
        )


class TaskAction:
    """Action ``task_runner/execute``, which starts a task, reports its progress and can cancel it.

    In a goal of type ``ExecuteTree``, ``target_tree`` is the name or path of a task, and
    ``payload`` is empty. A goal is aborted if another client stops the task, or if another task is
    in progress.

    Args:
        begin: Function that starts a task by name, see :meth:`.TaskServices.start_task`.
        end: Function that ends the task, see :meth:`.TaskServices.end`.

    Raises:
        ImportError: If its interface package is not installed.

    Thread: executor.
    """

    def __init__(
        self,
        node: GuardedNode,
        begin: Callable[[str], Generator[None, None, TaskRunner]],
        end: Callable[[str], Generator[None, None, str]],
    ) -> None:
        from btcpp_ros2_interfaces.action import ExecuteTree
        from btcpp_ros2_interfaces.msg import NodeStatus

        self._kind, self._status = ExecuteTree, NodeStatus
        self._start, self._end = begin, end
        self._starting: tuple[Any, Generator[None, None, TaskRunner]] | None = None
        self._ending: list[Generator[None, None, str]] = []
        self._goal: tuple[Any, TaskRunner] | None = None
        self._server = PlainActionServer(
            node,
            ExecuteTree,
            node.resolve_service_name("~/execute"),
            execute_callback=self._take,
            # Accept every goal, because a rejection cannot have a reason. The result of a goal
            # that cannot be executed has it.
            goal_callback=lambda _: GoalResponse.ACCEPT,
            cancel_callback=self._cancel,
        )
        self._timer = node.create_timer(
            PERIOD, self._poll, clock=Clock(clock_type=ClockType.STEADY_TIME)
        )
        self._timer.cancel()  # The timer runs only while a task starts or ends.

    def report(self, runner: TaskRunner, event: TaskEvent | None) -> None:
        """Send an event of the task as feedback, or the result if the task has ended."""
        if self._goal is None or self._goal[1] is not runner:
            return
        handle, _ = self._goal
        words = f": {event.kind} {event.text}".rstrip() if event is not None else ""
        message = f"{runner.subtask}, {100.0 * runner.progress:.0f} %{words}"
        handle.publish_feedback(self._kind.Feedback(message=message))
        if not runner.is_going:
            self._goal = None
            self._answer(handle, runner.state == "done", runner.reason or runner.state)

    def close(self) -> None:
        """Answer a goal whose task was cancelled before its start."""
        self._poll()

    @property
    def is_answering(self) -> bool:
        """True if the executor has not sent all answers yet."""
        return self._server.unsent > 0

    def _take(self, handle: Any) -> None:
        request = handle.request
        if request.payload:
            self._answer(
                handle, False, f"payload: got {request.payload!r:.200}, allowed an empty text"
            )
            return
        work = self._start(request.target_tree)
        # Until the task has started, ``TaskServices.start_task`` rejects further goals.
        if not self._has_started(handle, work):
            self._starting = (handle, work)
            self._timer.reset()

    def _cancel(self, handle: Any) -> CancelResponse:
        active_ids = [goal[0].goal_id for goal in (self._starting, self._goal) if goal is not None]
        if handle.goal_id not in active_ids:
            return CancelResponse.REJECT
        self._ending.append(self._end("cancelled by its client"))
        self._timer.reset()
        return CancelResponse.ACCEPT

    def _poll(self) -> None:
        self._ending = [work for work in self._ending if not self._has_ended(work)]
        if self._starting is not None and self._has_started(*self._starting):
            self._starting = None
        if self._starting is None and not self._ending:
            self._timer.cancel()

    def _has_ended(self, work: Generator[None, None, str]) -> bool:
        try:
            next(work)
        except (StopIteration, TaskFailed):  # TaskFailed means that no task runs.
            return True
        return False

    def _has_started(self, handle: Any, work: Generator[None, None, TaskRunner]) -> bool:
        try:
            next(work)
        except StopIteration as done:
            self._goal = (handle, done.value)
            self.report(done.value, None)
            return True
        except MultipandaError as error:
            self._answer(handle, False, str(error))
            return True
        return False

    def _answer(self, handle: Any, is_done: bool, words: str) -> None:
        status = self._status.SUCCESS if is_done else self._status.FAILURE
        result = self._kind.Result(
            node_status=self._status(status=status), return_message=shortened(words)
        )
        unfinished = "canceled" if handle.is_cancel_requested else "abort"
        how = "succeed" if is_done else unfinished
        self._server.finish(handle, how, result)
