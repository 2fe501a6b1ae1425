# SPDX-License-Identifier: Apache-2.0
"""Run a task on a cell: subtask after subtask, with plans made ahead, retries and holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal, TypeAlias

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks.execution import Execution, Planner, TaskEvent, What
from multipanda_py.exceptions import (
    LoopError,
    LoopTimeout,
    MultipandaError,
    SwitchRejected,
    TaskFailed,
)
from multipanda_py.planning.tasks.path_problem import SubtaskPlan
from multipanda_py.planning.tasks.sections import Mode, Part, manner, proposed_mode
from multipanda_py.planning.tasks.task_file import TaskFile
from multipanda_py.realtime.events import Event

ENDING = (Event.CLIENT_SILENT, Event.CLIENT_GONE)
"""What has every arm hold without a fault, and without anybody asking."""


class LawLost:
    """Watch a law from when its task starts.

    Args:
        cell: Started.
        law: Name of the controllet.
    """

    def __init__(self, cell: Cell, law: str) -> None:
        self._cell, self._law = cell, law
        self._since, (self._seen, _) = time.monotonic(), cell.events_since(0)

    def look(self) -> str:
        """Say that it is not active any more, and what has ended it; empty if it is."""
        if self._law in self._cell.active:
            return ""
        _, events = self._cell.events_since(self._seen)
        said = [event.text for event in events if event.event in ENDING]
        why = self._cell.ended_by(self._law, self._since) or (said[-1] if said else "")
        return f"{self._law} is not active any more: {why or 'see the events of the loop'}"


TaskState: TypeAlias = Literal["ready", "running", "paused", "done", "failed", "aborted"]
TICK = 0.01
"""Of the controlled world between two steps of :meth:`TaskRunner.run` [s]."""
SILENCE = 5.0
"""Longest wait for the loop [s]."""


class TaskRunner:
    """Do a task on a started cell.

    :meth:`step` looks, decides and returns at once, so whoever runs the cell keeps its thread;
    with an inline cell the same task goes the same way to the last bit. While a subtask moves,
    the next one is planned from where this one is to end.

    A subtask that fails is tried again, or done without a plan, as it says; else the task ends.
    Whatever ends it before its end leaves all arms holding: a failure, :meth:`abort`, the fault
    of an arm, a law that somebody else has switched off.

    Args:
        cell: Started.
        task: What to do.
        tell: Called with every event, in the thread that steps.

    Attributes:
        state: ``ready``, ``running``, ``paused``, ``done``, ``failed`` or ``aborted``.
        reason: Why it failed or was aborted; empty otherwise.
        events: All events until now.
        listener: Receiver of every event; see ``tell``.
        execution: Execution of the present subtask; None between two.

    Raises:
        ConfigurationError: If the cell does not have what the task is about, with every fault.

    Example::

        with Cell.from_yaml("cell.yaml", placement="inline") as cell:
            TaskRunner(cell, TaskFile.from_yaml("task.yaml"), print).run()

    Thread: one.
    """

    def __init__(
        self,
        cell: Cell,
        task: TaskFile,
        tell: Callable[[TaskEvent], None] | None = None,
        without: Part | None = None,
    ) -> None:
        task.check(cell.config)
        self.cell, self.task = cell, task
        self.state: TaskState = "ready"
        self.reason = ""
        self.events: list[TaskEvent] = []
        self.listener, self._without = tell, without
        self._planner = Planner(cell, task)
        self._number, self._tries = 0, 0
        self._modes = [proposed_mode(subtask) or "optimization" for subtask in task.subtasks]
        self._arms = cell.spec(task.law).config.arms
        self.execution: Execution | None = None
        self._ahead: Future[SubtaskPlan] | None = None
        self._paused_at = 0.0
        self._lost: LawLost | None = None

    @property
    def is_going(self) -> bool:
        """Whether it runs or is paused."""
        return self.state in ("running", "paused")

    @property
    def subtask(self) -> str:
        """Name of the present subtask, of the last one at the end."""
        return self.task.subtasks[self._number].name

    @property
    def number(self) -> int:
        """Place of the present subtask in the task, of the last one at the end."""
        return self._number

    @property
    def presses(self) -> bool:
        """Whether hands are to press now."""
        return self.execution is not None and self.execution.is_asked

    @property
    def plan(self) -> SubtaskPlan | None:
        """The plan that things move by now, None while they do not."""
        execution = self.execution
        return execution.plan if execution is not None and execution.phase == "move" else None

    @property
    def moved_at(self) -> float:
        """When the motion began [s]."""
        return self.execution.moved_at if self.execution is not None else 0.0

    @property
    def progress(self) -> float:
        """How much of the task is over, 0 to 1; every subtask counts alike."""
        if self.state == "done":
            return 1.0
        share = self.execution.share if self.execution is not None else 0.0
        return (self._number + share) / len(self.task.subtasks)

    def check(self) -> None:
        """Refuse what cannot be started; nothing changes.

        Raises:
            TaskFailed: If it was started before, or an arm has a fault.
        """
        if self.state != "ready":
            raise TaskFailed(f"{self.task.name}: is {self.state}; a task is started once")
        if fault := self._fault():
            raise TaskFailed(f"{self.task.name}: cannot start: {fault}; recover first")

    def start(self) -> None:
        """Give the arms to the law, and begin with the first subtask.

        Raises:
            TaskFailed: If it was started before, or an arm has a fault.
            SwitchRejected: If the arms cannot be had.
        """
        self.check()
        if self.task.law not in self.cell.active:
            by = f"task {self.task.name}"
            self.cell.switch([self.task.law], strictness="force_auto", by=by)
        self._lost = LawLost(self.cell, self.task.law)
        self.state = "running"
        self._say("", "started", self.task.name)
        self._begin(0)

    def step(self) -> None:
        """Go on; nothing happens before the start and after the end.

        Raises:
            LoopError: If the loop has ended; its arms hold by themselves then.
        """
        if not self.is_going or self.execution is None:
            return
        if why := self._fault() or self._taken():
            self._end("failed", why)
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
            self._fail(str(error))
            return
        if is_done:
            self._say(execution.subtask.name, "done")
            self._next()
        elif self._ahead is None and execution.phase == "move" and execution.plan is not None:
            self._prepare(execution.plan)

    def run(self, tick: Callable[[], None] | None = None) -> bool:
        """Start, and step until the task is over; return whether it was done.

        Args:
            tick: Called between steps.

        Raises:
            TaskFailed: If it was started before.
            LoopTimeout: If the loop stands still.
        """
        self.start()
        while self.is_going:
            self.step()
            self._wait(self.cell.time + TICK)
            if tick is not None:
                tick()
        return self.state == "done"

    def pause(self) -> None:
        """Let the arms stop where they are; hands that press go on pressing."""
        if self.state != "running" or self.execution is None:
            raise TaskFailed(f"{self.task.name}: is {self.state}; only what runs can be paused")
        self.execution.halt()
        self.state, self._paused_at = "paused", self.cell.time
        self._say(self.subtask, "paused")

    def resume(self) -> None:
        """Go on with the subtask, planned anew from where everything is now."""
        if self.state != "paused" or self.execution is None:
            raise TaskFailed(f"{self.task.name}: is {self.state}; only what is paused can go on")
        self.execution.wait(self.cell.time - self._paused_at)
        self.state = "running"
        self._say(self.subtask, "resumed")

    def abort(self, why: str = "asked for") -> None:
        """End the task; all arms hold."""
        if self.is_going:
            self._end("aborted", why)

    def call_off(self, why: str) -> None:
        """End the task before it begins; no arm is told anything."""
        if self.state == "ready":
            self.state, self.reason = "aborted", f"not started: {why}"
            self._planner.close()
            self._say("", "aborted", self.reason)

    def close(self) -> None:
        """End what plans, and the task if it still runs."""
        self.abort("closed")
        self._planner.close()

    def _wait(self, until: float) -> None:
        """Let the controlled world go on until a time [s]."""
        self.cell.wait(lambda: self.cell.time >= until - 1e-9, SILENCE, "a cycle")

    def _begin(self, number: int, mode: Mode | None = None) -> None:
        """Begin a subtask, for the first time or again."""
        if number != self._number:
            self._tries = 0
        self._number, self.execution = number, None  # whose share is of another try
        subtask = self.task.subtasks[number]
        prepared, self._ahead = self._ahead, None
        how = manner(subtask, mode or self._modes[number], self._without)
        self._say(subtask.name, "started", f"mode {how.mode}")
        self.execution = Execution(
            self.cell, self.task, how, self._planner, prepared,
            lambda what, text: self._say(subtask.name, what, text),
        )  # fmt: skip

    def _next(self) -> None:
        if self._number + 1 < len(self.task.subtasks):
            self._begin(self._number + 1)
            return
        self.state = "done"
        self._planner.close()
        self._say("", "done")

    def _prepare(self, plan: SubtaskPlan) -> None:
        """Plan the next subtask from where this one is to end."""
        if plan.leads:
            return  # nobody has planned which postures these end in
        number = self._number + 1
        if number < len(self.task.subtasks):
            how = manner(self.task.subtasks[number], self._modes[number], self._without)
            self._ahead = self._planner.ask(how.subtask, how.planned, plan.end)

    def _fail(self, why: str) -> None:
        """Try again, or without a plan, or end."""
        subtask = self.task.subtasks[self._number]
        mode = self.execution.mode if self.execution is not None else None
        self._ahead = None
        if self._tries < subtask.on_failure.retry:
            self._tries += 1
            self._say(subtask.name, "retry", f"{self._tries} of {subtask.on_failure.retry}: {why}")
            self._begin(self._number)
        elif subtask.on_failure.then == "force" and mode != "force":
            self._say(subtask.name, "fallback", f"mode force, without a plan: {why}")
            self._begin(self._number, "force")
        else:
            self._end("failed", why)

    def _end(self, state: Literal["failed", "aborted"], why: str) -> None:
        """Let all arms hold, and say why."""
        self.state, self.reason = state, f"{self.subtask}: {why}"
        self._planner.close()
        self._ahead = None
        try:
            self.cell.hold(by=f"task {self.task.name}: {why}")
        except (SwitchRejected, LoopTimeout) as error:
            why = f"{why}; hold: {error}"
        self._say(self.subtask, state, why)

    def _fault(self) -> str:
        """Name the arms with faults; empty if there is none."""
        faults = [(arm, self.cell.state(arm).fault) for arm in self._arms]
        return ", ".join(f"{arm} has the fault {fault}" for arm, fault in faults if fault)

    def _taken(self) -> str:
        return "" if self._lost is None else self._lost.look()

    def _say(self, subtask: str, what: What, text: str = "") -> None:
        event = TaskEvent(self.cell.time, subtask, what, text)
        self.events.append(event)
        if self.listener is not None:
            self.listener(event)
