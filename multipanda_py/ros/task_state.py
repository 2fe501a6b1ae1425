# SPDX-License-Identifier: Apache-2.0
"""How a task goes, as a message."""

from __future__ import annotations

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue

from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.qos import KEPT
from multipanda_py.tasks import TaskRunner
from multipanda_py.tasks.events import TaskEvent

_LEVELS = {"failed": DiagnosticStatus.ERROR, "aborted": DiagnosticStatus.WARN}


class TaskState:
    """``task_runner/state``; the newest is kept for who comes later.

    ``message`` is the newest event in words. ``values`` are ``state``, ``subtask``, ``progress``
    (0 to 1) and ``reason``, which is empty unless the task has failed or was stopped.

    Args:
        node: Publishes.
        cell: Name of the cell.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: str) -> None:
        self._cell, self._words = cell, ""
        topic = node.resolve_topic_name("~/state")
        self._publisher = node.create_publisher(DiagnosticStatus, topic, KEPT)

    def send(self, runner: TaskRunner, event: TaskEvent | None) -> None:
        """Publish how a task goes, after an event of it or between two."""
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
