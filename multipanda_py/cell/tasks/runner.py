# SPDX-License-Identifier: Apache-2.0
"""Execution of a task on a cell: all subtasks in order, with retries after failures."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal, TypeAlias

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks.execution import EventKind, Execution, Planner, TaskEvent
from multipanda_py.exceptions import (
    LoopError,
    LoopTimeout,
    MultipandaError,
    SwitchRejected,
    TaskFailed,
)
from multipanda_py.planning.tasks.path_problem import SubtaskPlan
from multipanda_py.planning.tasks.sections import Mode, Part, execution_mode, proposed_mode
from multipanda_py.planning.tasks.task_file import TaskFile
from multipanda_py.realtime.events import Event

CLIENT_LOSS_EVENTS = (Event.CLIENT_SILENT, Event.CLIENT_GONE)
"""Events after which every arm holds without a fault and without a request."""


class ControlletMonitor:
    """Monitor that detects the deactivation of the controllet of a task."""

    def __init__(self, cell: Cell, law: str) -> None:
        self._cell, self._law = cell, law
        self._since, (self._event_count, _) = time.monotonic(), cell.events_since(0)

    def check(self) -> str:
        """Return the reason why the controllet is no longer active; empty while it is active."""
        if self._law in self._cell.active:
            return ""
        _, events = self._cell.events_since(self._event_count)
        texts = [event.text for event in events if event.event in CLIENT_LOSS_EVENTS]
        reason = self._cell.abort_reason(self._law, self._since) or (texts[-1] if texts else "")
        return f"{self._law} is no longer active: {reason or 'see the events of the loop'}"


TaskState: TypeAlias = Literal["ready", "running", "paused", "done", "failed", "aborted"]
STEP_PERIOD = 0.01
"""Cell time between two steps of :meth:`TaskRunner.run` [s]."""
TIMEOUT = 5.0
"""Maximum time to wait for a cycle of the loop [s]."""


class TaskRunner:
    """Executor of a task on a started cell. On an inline cell, repeated runs are bitwise equal.

    The key ``on_failure`` of a subtask in the task file defines whether a failed subtask is
    repeated. All arms hold if the task fails or is aborted.

    Args:
        cell: Started cell.
        task: Task to execute.
        on_event: Function that is called with every event, in the thread that calls :meth:`step`.
        without: Part of planning or control to leave out in an ablation study: ``force``, ``plan``
            or ``hybrid``, see :func:`.execution_mode`; None for no part.

    Attributes:
        state: ``ready``, ``running``, ``paused``, ``done``, ``failed`` or ``aborted``.
        reason: Reason of a failure or abort; empty otherwise.
        events: All events so far.
        listener: Function that is called with every event (``on_event``).
        execution: Execution of the present subtask; None between two subtasks.

    Raises:
        ConfigurationError: If the task does not fit the cell. The message lists all errors.

    Example::

        with Cell.from_yaml("cell.yaml", placement="inline") as cell:
            TaskRunner(cell, TaskFile.from_yaml("task.yaml"), print).run()

    Thread: one.
    """

    def __init__(
        self,
        cell: Cell,
        task: TaskFile,
        on_event: Callable[[TaskEvent], None] | None = None,
        without: Part | None = None,
    ) -> None:
        task.check(cell.config)
        self.cell, self.task = cell, task
        self.state: TaskState = "ready"
        self.reason = ""
        self.events: list[TaskEvent] = []
        self.listener, self._without = on_event, without
        self._planner = Planner(cell, task)
        self._number, self._tries = 0, 0
        self._modes = [proposed_mode(subtask) or "optimization" for subtask in task.subtasks]
        self._arms = cell.spec(task.controllet).config.arms
        self.execution: Execution | None = None
        self._ahead: Future[SubtaskPlan] | None = None
        self._paused_at = 0.0
        self._monitor: ControlletMonitor | None = None

    @property
    def is_going(self) -> bool:
        """True while the task runs or is paused."""
        return self.state in ("running", "paused")

    @property
    def subtask(self) -> str:
        """Name of the present subtask; after the end of the task, of the last one."""
        return self.task.subtasks[self._number].name

    @property
    def number(self) -> int:
        """Index of the present subtask; after the end of the task, of the last one."""
        return self._number

    @property
    def presses(self) -> bool:
        """True while contact forces are commanded."""
        return self.execution is not None and self.execution.is_pressing_commanded

    @property
    def plan(self) -> SubtaskPlan | None:
        """Plan of the present motion; None without a motion."""
        execution = self.execution
        return execution.plan if execution is not None and execution.phase == "move" else None

    @property
    def moved_at(self) -> float:
        """Start of the present motion in cell time [s]; 0 between two subtasks."""
        return self.execution.moved_at if self.execution is not None else 0.0

    @property
    def progress(self) -> float:
        """Completed fraction of the task, from 0 to 1. All subtasks count equally."""
        if self.state == "done":
            return 1.0
        fraction = self.execution.progress if self.execution is not None else 0.0
        return (self._number + fraction) / len(self.task.subtasks)

    def check(self) -> None:
        """Check that the task can start.

        Raises:
            TaskFailed: If the task was started before, or an arm has a fault.
        """
        if self.state != "ready":
            raise TaskFailed(f"{self.task.name}: is {self.state}; a task can be started only once")
        if fault := self._fault_text():
            raise TaskFailed(f"{self.task.name}: cannot start: {fault}. Recover first")

    def start(self) -> None:
        """Activate the controllet of the task and start the first subtask.

        Raises:
            TaskFailed: If the task was started before, or an arm has a fault.
            SwitchRejected: If the controllet cannot be activated.
        """
        self.check()
        if self.task.controllet not in self.cell.active:
            by = f"task {self.task.name}"
            self.cell.switch([self.task.controllet], strictness="force_auto", by=by)
        self._monitor = ControlletMonitor(self.cell, self.task.controllet)
        self.state = "running"
        self._log("", "started", self.task.name)
        self._start_subtask(0)

    def step(self) -> None:
        """Execute one step of a running task without waiting.

        Raises:
            LoopError: If the loop has ended. The arms then hold by themselves.
        """
        if not self.is_going or self.execution is None:
            return
        if reason := self._fault_text() or self._taken():
            self._end("failed", reason)
            return
        if self.state == "paused":
            return
        execution = self.execution
        try:
            is_done = execution.step()
        except LoopError:
            self._planner.close()
            raise
        except MultipandaError as error:
            self._retry_or_end(str(error))
            return
        if is_done:
            self._log(execution.subtask.name, "done")
            self._next()
        elif self._ahead is None and execution.phase == "move" and execution.plan is not None:
            self._request_next_plan(execution.plan)

    def run(self, tick: Callable[[], None] | None = None) -> bool:
        """Start the task and call ``tick`` between steps; return True if the task was completed.

        Raises:
            TaskFailed: If the task was started before, or an arm has a fault.
            LoopTimeout: If the loop is blocked.
        """
        self.start()
        while self.is_going:
            self.step()
            self._wait(self.cell.time + STEP_PERIOD)
            if tick is not None:
                tick()
        return self.state == "done"

    def pause(self) -> None:
        """Stop the motion of the arms without releasing contact forces.

        Raises:
            TaskFailed: If the task does not run.
        """
        if self.state != "running" or self.execution is None:
            raise TaskFailed(
                f"{self.task.name}: is {self.state}; only a running task can be paused"
            )
        self.execution.interrupt()
        self.state, self._paused_at = "paused", self.cell.time
        self._log(self.subtask, "paused")

    def resume(self) -> None:
        """Continue the subtask with a new plan from the present state.

        Raises:
            TaskFailed: If the task is not paused.
        """
        if self.state != "paused" or self.execution is None:
            raise TaskFailed(
                f"{self.task.name}: is {self.state}; only a paused task can be resumed"
            )
        self.execution.wait(self.cell.time - self._paused_at)
        self.state = "running"
        self._log(self.subtask, "resumed")

    def abort(self, reason: str = "as requested") -> None:
        """End the task. All arms hold."""
        if self.is_going:
            self._end("aborted", reason)

    def call_off(self, reason: str) -> None:
        """Cancel the task before its start. No arm receives a command."""
        if self.state == "ready":
            self.state, self.reason = "aborted", f"not started: {reason}"
            self._planner.close()
            self._log("", "aborted", self.reason)

    def close(self) -> None:
        """Abort the task if it still runs, and stop the planner."""
        self.abort("closed")
        self._planner.close()

    def _wait(self, until: float) -> None:
        self.cell.wait(lambda: self.cell.time >= until - 1e-9, TIMEOUT, "a cycle")

    def _start_subtask(self, number: int, mode: Mode | None = None) -> None:
        if number != self._number:
            self._tries = 0
        # `progress` must not use an earlier execution.
        self._number, self.execution = number, None
        subtask = self.task.subtasks[number]
        prepared, self._ahead = self._ahead, None
        how = execution_mode(subtask, mode or self._modes[number], self._without)
        self._log(subtask.name, "started", f"mode {how.mode}")
        self.execution = Execution(
            self.cell, self.task, how, self._planner, prepared,
            lambda kind, text: self._log(subtask.name, kind, text),
        )  # fmt: skip

    def _next(self) -> None:
        if self._number + 1 < len(self.task.subtasks):
            self._start_subtask(self._number + 1)
            return
        self.state = "done"
        self._planner.close()
        self._log("", "done")

    def _request_next_plan(self, plan: SubtaskPlan) -> None:
        if plan.straight_paths:
            return  # The joint configuration after straight tool paths is unknown.
        number = self._number + 1
        if number < len(self.task.subtasks):
            how = execution_mode(self.task.subtasks[number], self._modes[number], self._without)
            self._ahead = self._planner.request(how.subtask, how.planning_mode, plan.end)

    def _retry_or_end(self, reason: str) -> None:
        subtask = self.task.subtasks[self._number]
        mode = self.execution.mode if self.execution is not None else None
        self._ahead = None
        if self._tries < subtask.on_failure.retry:
            self._tries += 1
            self._log(
                subtask.name, "retry", f"{self._tries} of {subtask.on_failure.retry}: {reason}"
            )
            self._start_subtask(self._number)
        elif subtask.on_failure.fallback == "force" and mode != "force":
            self._log(subtask.name, "fallback", f"mode force, without a plan: {reason}")
            self._start_subtask(self._number, "force")
        else:
            self._end("failed", reason)

    def _end(self, state: Literal["failed", "aborted"], reason: str) -> None:
        self.state, self.reason = state, f"{self.subtask}: {reason}"
        self._planner.close()
        self._ahead = None
        try:
            self.cell.hold(by=f"task {self.task.name}: {reason}")
        except (SwitchRejected, LoopTimeout) as error:
            reason = f"{reason}; hold failed: {error}"
        self._log(self.subtask, state, reason)

    def _fault_text(self) -> str:
        faults = [(arm, self.cell.state(arm).fault) for arm in self._arms]
        return ", ".join(f"{arm} has the fault {fault}" for arm, fault in faults if fault)

    def _taken(self) -> str:
        return "" if self._monitor is None else self._monitor.check()

    def _log(self, subtask: str, kind: EventKind, text: str = "") -> None:
        event = TaskEvent(self.cell.time, subtask, kind, text)
        self.events.append(event)
        if self.listener is not None:
            self.listener(event)
