# SPDX-License-Identifier: Apache-2.0
"""Plans of subtasks, made when they are asked for or ahead of that, beside the run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from multipanda_py.cell import Cell
from multipanda_py.exceptions import MultipandaError
from multipanda_py.optimiser.solver import SolverSettings
from multipanda_py.tasks.path_problem import Keeping, plan_by_path
from multipanda_py.tasks.sections import Mode, Subtask
from multipanda_py.tasks.seen import Seen
from multipanda_py.tasks.subtask_plan import SubtaskPlan, plan_by_poses
from multipanda_py.tasks.task_file import TaskFile
from multipanda_py.tasks.wanted import wanted

PATIENCE = 5.0
"""Longest search beside a running cell, of processor time [s]; one that waits for its plans has
all the time."""


class Planner:
    """Make plans: at once for a cell that is stepped by hand, else in a thread of its own.

    So runs in lockstep are the same on every machine, and a loop that runs by itself waits for
    nobody.

    Args:
        cell: Whose arms and things are planned for.
        task: Which task.

    Thread: one asks; the plans are made in another.
    """

    def __init__(self, cell: Cell, task: TaskFile) -> None:
        self._config, self._task = cell.config, task
        waits = cell.config.cell.placement == "inline"
        self._settings = SolverSettings(time=1e9 if waits else PATIENCE)
        self._pool = None if waits else ThreadPoolExecutor(1, "planner")

    def ask(self, subtask: Subtask, mode: Mode, start: Seen) -> Future[SubtaskPlan]:
        """Ask for a plan; it, or why there is none, is the future's result."""
        if self._pool is not None:
            return self._pool.submit(self._plan, subtask, mode, start)
        done: Future[SubtaskPlan] = Future()
        _settle(done, lambda: self._plan(subtask, mode, start))
        return done

    def close(self) -> None:
        """End the thread; a plan that is being made is not waited for."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _plan(self, subtask: Subtask, mode: Mode, start: Seen) -> SubtaskPlan:
        points = self._task.points(subtask, self._config)
        goals = wanted(subtask, points, start)
        if mode == "force":
            return plan_by_poses(points, goals, start)
        pressed = points if mode == "hybrid" else []
        keeping = None
        if self._task.clearance is not None:
            keeping = Keeping(self._task.clearance, subtask.touching)
        return plan_by_path(subtask, pressed, goals, start, self._config, self._settings, keeping)


def _settle(future: Future[SubtaskPlan], make: Callable[[], SubtaskPlan]) -> None:
    try:
        future.set_result(make())
    except MultipandaError as error:
        future.set_exception(error)
