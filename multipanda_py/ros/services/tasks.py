# SPDX-License-Identifier: Apache-2.0
"""Services and action with which a running node executes tasks of several subtasks."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

from ament_index_python.packages import PackageNotFoundError, get_package_share_directory
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.cell.tasks import TaskFile, TaskRunner, check_task
from multipanda_py.cell.tasks.controllet_client import observe
from multipanda_py.cell.tasks.execution import TaskEvent
from multipanda_py.cell.tasks.runner import STEP_PERIOD
from multipanda_py.config.parameter_file import TASK_NODE, read
from multipanda_py.exceptions import ConfigurationError, LoopError, MultipandaError, TaskFailed
from multipanda_py.files import MAX_REMOTE_SIZE
from multipanda_py.planning.tasks.check import SubtaskCheck
from multipanda_py.planning.tasks.task_file import CONTROLLET_TYPE
from multipanda_py.ros.node.deferred_responses import Work
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.parameters import hand_over, plain_node
from multipanda_py.ros.services.task_action import TaskAction, TaskState
from multipanda_py.ros.topics.targets import Targets

_REQUIRED_KEYS = {"name", "controllet", "subtasks"}


def task_of(name: str) -> TaskFile:
    """Read a task: one of the package's share folder by name, or a file by its absolute path.

    Args:
        name: Name or absolute path, such as ``carry_box`` or ``/home/me/tasks/lift.yaml``.

    Raises:
        ConfigurationError: If there is no such task, or it is invalid. The error lists all faults.

    Thread: any.
    """
    path = Path(name)
    if not path.is_absolute():
        shipped = _shipped()
        if name not in shipped:
            known = ", ".join(sorted(shipped)) or "no task is installed"
            raise ConfigurationError(
                f"file: got {name!r:.200}, allowed an absolute path, or a task of the package: "
                f"{known}"
            )
        path = shipped[name]
    data = read(path, MAX_REMOTE_SIZE)
    if (
        not isinstance(data, dict)
        or not _REQUIRED_KEYS <= data.keys() <= TaskFile.model_fields.keys()
    ):
        # The message repeats no content, because a client may name a private file.
        raise ConfigurationError(
            f"{path}: is not a task file. Allowed keys: {', '.join(TaskFile.model_fields)}"
        )
    return TaskFile.from_content(data, path)


def _shipped() -> dict[str, Path]:
    try:
        share_folder = Path(get_package_share_directory("multipanda_py"))
    except PackageNotFoundError:
        return {}
    return {path.stem: path for path in (share_folder / "config" / "tasks").glob("*.yaml")}


SWITCH_TIMEOUT = 2.0
"""Timeout for the activation of the controllet, whose arms may have to stop first [s]."""
STATE_PERIOD = 0.2
"""Period of state messages while a task runs [s]."""
Beginning: TypeAlias = Generator[None, None, TaskRunner]
Ending: TypeAlias = Generator[None, None, str]


def does_tasks(cell: Cell) -> bool:
    """Return True if a cell has a controllet for tasks."""
    return any(spec.config.type == CONTROLLET_TYPE for spec in cell.specs)


class TaskServices:
    """Interfaces of the node ``task_runner``, which executes one task at a time.

    The parameter ``file`` selects the task. While a task runs, other clients cannot change
    ``file`` or send targets to its controllet. If a task ends early, all arms hold.

    Attributes:
        node: Node with the parameter, services and topic.
        runner: Runner of the newest task; None before the first.

    Thread: executor.
    """

    def __init__(self, main: GuardedNode, cell: Cell, targets: Targets) -> None:
        self._cell, self._targets, self._logger = cell, targets, main.get_logger()
        self.runner: TaskRunner | None = None
        self._is_starting, self._cancel_reason = False, ""
        self._action: TaskAction | None = None
        self._held_off: list[tuple[str, str]] = []
        self._reported_at = 0.0
        self.node = plain_node(TASK_NODE, main, "")
        self.node.declare_parameter(
            "file",
            "",
            ParameterDescriptor(
                description="task to execute: a name from the package's config/tasks, or an "
                "absolute path on the node's machine; the file is read at every start"
            ),
        )
        hand_over(self.node, {"file"}, self._change)
        self._listeners = [TaskState(self.node, cell.config.cell.name).send]
        with contextlib.suppress(ImportError):
            self._action = TaskAction(self.node, self.start_task, self.end)
            self._listeners.append(self._action.report)
        for name, work in (
            ("start", self.start),
            ("stop", self.stop),
            ("pause", self._pause),
            ("resume", self._resume),
        ):
            self.node.serve(Trigger, self.node.resolve_service_name(f"~/{name}"), work)
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._timer = self.node.create_timer(STEP_PERIOD, self.step, clock=clock)
        self._timer.cancel()  # The timer runs only while a task runs.

    def close(self, reason: str = "the node ends") -> None:
        """Abort a running or starting task; all arms hold."""
        # An error means that the loop has ended, which lets the arms hold.
        with contextlib.suppress(MultipandaError):
            if self._is_starting:
                self._cancel_reason = reason
                if self._action is not None:
                    self._action.close()
            elif self.runner is not None:
                self.runner.abort(reason)
                self.runner.close()

    @property
    def is_answering(self) -> bool:
        """True if the executor has not sent all answers to clients yet."""
        return self._action is not None and self._action.is_answering

    def _change(self, values: dict[str, Any]) -> None:
        self._reject_second_task()
        if values["file"]:
            task_of(values["file"]).check(self._cell.config)

    def _reject_second_task(self) -> None:
        if self._is_starting:
            raise TaskFailed("a task is starting; stop it first")
        if (runner := self.runner) is not None and runner.is_going:
            raise TaskFailed(f"{runner.task.name} is {runner.state}; stop it first")

    def start_task(self, name: str) -> Beginning:
        """Check a task, activate its controllet on its arms, and start it.

        Args:
            name: Name or path as for :func:`.task_of`.

        Returns:
            Generator that yields during check and switch, and returns the running task.

        Raises:
            MultipandaError: If there is no such task, or it cannot start or is cancelled.
        """
        # Wait until a cancelled start has ended.
        while self._is_starting and self._cancel_reason:
            yield
        self._reject_second_task()
        runner = TaskRunner(self._cell, task_of(name), self._report_event)
        runner.check()
        self._is_starting, self._cancel_reason = True, ""
        try:
            yield from self._check_in_thread(runner)
            if not self._cancel_reason and runner.task.controllet not in self._cell.active:
                pending = self._cell.request_switch(
                    [runner.task.controllet], (), Strictness.FORCE_AUTO, SWITCH_TIMEOUT,
                    f"task {runner.task.name}",
                )  # fmt: skip
                while not self._cancel_reason and pending.poll() is None:
                    yield
            self.runner = runner
            if self._cancel_reason:  # Let the arms hold: the controllet may be active.
                runner.call_off(self._cancel_reason)
                raise TaskFailed(runner.reason)
            runner.start()
        finally:
            self._is_starting = False
        self._reject_other_targets(runner)
        self._timer.reset()
        return runner

    def _check_in_thread(self, runner: TaskRunner) -> Generator[None, None, None]:
        cell, task = self._cell, runner.task
        start = observe(cell, cell.spec(task.controllet).config.arms)
        pool, ended = ThreadPoolExecutor(1, "task check"), threading.Event()

        def notify(check: SubtaskCheck) -> None:
            # Raise an error to end the check early, because the process waits for the check at its
            # end.
            if self._cancel_reason or ended.is_set():
                raise TaskFailed(f"{check.subtask}: the check was cancelled")

        try:
            result = pool.submit(check_task, cell.config, task, start, notify)
            while not (self._cancel_reason or result.done()):
                yield
            if not self._cancel_reason:
                result.result()
        finally:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)

    def end(self, reason: str = "as requested") -> Ending:
        """Stop the running task, or cancel its start and let the arms hold.

        Returns:
            Generator that yields until the task has ended, and returns a message.

        Raises:
            TaskFailed: If no task runs.
        """
        if self._is_starting:
            self._cancel_reason = reason
            pending = self._cell.request_hold(by=f"the end of a task: {reason}")
            while pending.poll() is None:
                yield
            return "not started; every arm holds"
        runner = self._unfinished_task()
        runner.abort(reason)
        self._stop_timer_and_release_targets()
        return f"{runner.reason}; every arm holds"

    def start(self, request: Any, response: Any) -> Work:
        """Start the task of parameter ``file``, and answer when it runs."""
        try:
            name = str(self.node.get_parameter("file").value)
            if not name:
                raise TaskFailed("no task: set the parameter file first")
            runner = yield from self.start_task(name)
            response.success = True
            response.message = f"{runner.task.name}: {len(runner.task.subtasks)} subtasks"
        except MultipandaError as error:
            self._refuse(response, "start", error)

    def stop(self, request: Any, response: Any) -> Work:
        """End the task, and answer when it has ended."""
        try:
            response.message = yield from self.end()
            response.success = True
        except MultipandaError as error:
            self._refuse(response, "stop", error)

    def _pause(self, request: Any, response: Any) -> Work:
        return self._do("pause", TaskRunner.pause, response)

    def _resume(self, request: Any, response: Any) -> Work:
        return self._do("resume", TaskRunner.resume, response)

    def _do(self, name: str, action: Callable[[TaskRunner], None], response: Any) -> Work:
        yield from ()
        try:
            runner = self._unfinished_task()
            action(runner)
            response.success = True
            response.message = f"{runner.task.name} is {runner.state}, in {runner.subtask}"
        except MultipandaError as error:
            self._refuse(response, name, error)

    def _unfinished_task(self) -> TaskRunner:
        if self.runner is None or not self.runner.is_going:
            raise TaskFailed("no task runs. Start one first")
        return self.runner

    def _refuse(self, response: Any, description: str, error: MultipandaError) -> None:
        response.success, response.message = False, str(error)
        self._logger.warning(f"{TASK_NODE}: {description} rejected: {error}")

    def step(self) -> None:
        """Advance the task; stop the timer that calls this method after its end."""
        if self.runner is not None:
            self._step_or_abort(self.runner)
        if self.runner is None or not self.runner.is_going:
            self._stop_timer_and_release_targets()
        elif time.monotonic() - self._reported_at >= STATE_PERIOD:
            self._publish_state(self.runner)

    def _step_or_abort(self, runner: TaskRunner) -> None:
        try:
            runner.step()
        except LoopError:  # The error ends the node, and with it the task.
            raise
        except Exception as error:  # Abort: the next step would raise it again.
            self._logger.error(f"{runner.task.name}: {type(error).__name__}: {error}")
            runner.abort(f"{type(error).__name__}: {error}")
            self._stop_timer_and_release_targets()
            raise

    def _report_event(self, event: TaskEvent) -> None:
        runner = self.runner
        if runner is None:
            return
        text = f"{runner.task.name}: {event}"
        # Two calls: rclpy allows only one severity for each place in the code.
        if event.kind in ("failed", "aborted"):
            self._logger.warning(text)
        else:
            self._logger.info(text)
        self._publish_state(runner, event)

    def _publish_state(self, runner: TaskRunner, event: TaskEvent | None = None) -> None:
        self._reported_at = time.monotonic()
        for notify in self._listeners:
            notify(runner, event)

    def _reject_other_targets(self, runner: TaskRunner) -> None:
        spec = self._cell.spec(runner.task.controllet)
        for channel in spec.channel_table.values():
            for name in (spec.name,) if channel.shared else spec.config.arms:
                reason = f"{channel.name}: the task {runner.task.name} runs; stop it first"
                self._targets.held_off.inhibit(name, channel.name, reason)
                self._held_off.append((name, channel.name))

    def _stop_timer_and_release_targets(self) -> None:
        self._timer.cancel()
        for name, channel in self._held_off:
            self._targets.held_off.release(name, channel)
        self._held_off = []
