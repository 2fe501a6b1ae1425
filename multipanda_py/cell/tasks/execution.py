# SPDX-License-Identifier: Apache-2.0
"""Execution of one subtask on a running cell, step by step."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from multipanda_py.cell import Cell
from multipanda_py.cell.tasks.controllet_client import ControlletClient
from multipanda_py.exceptions import MultipandaError, TaskFailed
from multipanda_py.planning.optimiser.solver import SolverSettings
from multipanda_py.planning.tasks.goals import subtask_goals
from multipanda_py.planning.tasks.path_problem import (
    ClearanceRule,
    SubtaskPlan,
    plan_by_path,
    plan_by_poses,
)
from multipanda_py.planning.tasks.sections import ExecutionMode, Mode, Subtask
from multipanda_py.planning.tasks.task_file import TaskFile
from multipanda_py.planning.tasks.world_state import WorldState
from multipanda_py.state import Vector

EventKind: TypeAlias = Literal[
    "started", "planned", "replanned", "touching", "moving", "done", "retry", "fallback",
    "failed", "paused", "resumed", "aborted",
]  # fmt: skip


@dataclass(frozen=True)
class TaskEvent:
    """Event of a task.

    Attributes:
        time: Cell time [s].
        subtask: Name of the subtask; empty for the whole task.
        kind: Type of the event.
        text: Details, such as a reason.
    """

    time: float
    subtask: str
    kind: EventKind
    text: str = ""

    def __str__(self) -> str:
        parts = [part for part in (self.subtask, self.kind, self.text) if part]
        return f"{self.time:8.3f} s  {': '.join(parts)}"


TIMEOUT = 5.0
"""Maximum processor time to search for a plan [s], if the cell has its own loop. For an inline
cell, which waits for its plans, the time is not limited."""


class Planner:
    """Planner of subtasks in a separate thread; in the caller's thread for an inline cell.

    Thread: one caller.
    """

    def __init__(self, cell: Cell, task: TaskFile) -> None:
        self._config, self._task = cell.config, task
        waits = cell.config.cell.placement == "inline"
        self._settings = SolverSettings(time=1e9 if waits else TIMEOUT)
        self._pool = None if waits else ThreadPoolExecutor(1, "planner")

    def request(
        self, subtask: Subtask, planning_mode: Mode, start: WorldState
    ) -> Future[SubtaskPlan]:
        """Request a plan and return a future, which gets the plan or the error."""
        if self._pool is not None:
            return self._pool.submit(self._plan, subtask, planning_mode, start)
        done: Future[SubtaskPlan] = Future()
        _settle(done, lambda: self._plan(subtask, planning_mode, start))
        return done

    def close(self) -> None:
        """End the thread without waiting for a running search."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _plan(self, subtask: Subtask, mode: Mode, start: WorldState) -> SubtaskPlan:
        points = self._task.points(subtask, self._config)
        goals = subtask_goals(subtask, points, start)
        if mode == "force":
            return plan_by_poses(points, goals, start)
        pressed = points if mode == "hybrid" else []
        constraint = None
        if self._task.clearance is not None:
            constraint = ClearanceRule(self._task.clearance, subtask.allowed_contacts)
        return plan_by_path(
            subtask, pressed, goals, start, self._config, self._settings, constraint
        )


def _settle(future: Future[SubtaskPlan], make: Callable[[], SubtaskPlan]) -> None:
    try:
        future.set_result(make())
    except MultipandaError as error:
        future.set_exception(error)


Phase: TypeAlias = Literal["begin", "touch", "plan", "move", "done"]
MAX_REPLANS = 5
"""Maximum number of new plans in one attempt, after the first one."""
OUT_OF_BAND_TIME = 0.3
"""Time for which force errors may exceed ``force_tolerance`` before the motion stops [s]."""
ARRIVAL_WINDOW, ARRIVAL_STEP = 0.1, 1e-3
"""Time window [s] and distance [m] to detect the end of straight tool motions. Tools have arrived
if they approach their goals by less than ``ARRIVAL_STEP`` within ``ARRIVAL_WINDOW``."""
REST_TIMEOUT = 1.0
"""Maximum time for arms to come to rest after a contact or a motion, before a plan is made [s]."""
SETTLE_TIME = 1.0
"""Time for a finished motion to reach the goal tolerance, before a new plan is made [s]."""


class Execution:
    """State machine of a subtask: establish contact forces, plan, move, and check the goals.

    The motion stops and is planned again if an object deviates from the plan, or if a force error
    exceeds ``force_tolerance`` for :data:`OUT_OF_BAND_TIME`.

    Args:
        cell: Started cell in which the controllet of the task is active.
        task: Task, checked for this cell.
        execution_mode: Subtask, with the modes in which it is planned and controlled.
        planner: Planner of the task.
        prepared: Plan requested during the previous subtask; None without one.
        on_event: Function that is called with kind and text of every event.

    Attributes:
        phase: Present phase.
        plan: Present plan; None before the first plan.
        replans: Number of plans after the first one.
        moved_at: Start of the motion in cell time [s].
        client: Client of the controllet.

    Thread: one.
    """

    def __init__(
        self,
        cell: Cell,
        task: TaskFile,
        execution_mode: ExecutionMode,
        planner: Planner,
        prepared: Future[SubtaskPlan] | None,
        on_event: Callable[[EventKind, str], None],
    ) -> None:
        self.subtask, self.mode = execution_mode.subtask, execution_mode.mode
        self.client = ControlletClient(cell, task.controllet)
        self._cell, self._planner, self._on_event = cell, planner, on_event
        self._presses, self._planning_mode = execution_mode.presses, execution_mode.planning_mode
        points = task.points(self.subtask, cell.config)
        self._points = [] if self._planning_mode == "optimization" else points
        self._carried = {point.object_name for point in self._points}
        bases = {goal.base for goal in self.subtask.goals} | {
            point.object_name for point in points
        }
        self._watched = bases & set(cell.objects())
        self.phase: Phase = "begin"
        self.plan: SubtaskPlan | None = None
        self._pending_plan = prepared
        self._is_prepared = prepared is not None
        self.replans = 0
        self._began = cell.time
        self._since = self.moved_at = self._ended_at = self._looked_at = cell.time
        self._off = np.inf
        self._motions = 0

    @property
    def progress(self) -> float:
        """Completed fraction of the motion, from 0 to 1."""
        if self.phase == "done":
            return 1.0
        if self.phase != "move":
            return 0.0
        return min(1.0, (self._cell.time - self.moved_at) / self.subtask.duration)

    def step(self) -> bool:
        """Execute one step and return True if the subtask is done.

        Raises:
            TaskFailed: If the subtask cannot be completed, or takes too long.
            PlanRejected: If no plan was found.
            TargetRejected: If the cell rejects the planned motion.
        """
        time, state = self._cell.time, self.client.observe()
        if time - self._began > self.subtask.timeout:
            raise TaskFailed(
                f"not done after {self.subtask.timeout:g} s, in phase {self.phase}"
                + self._remaining_errors_text(state)
                + self.client.failure_details()
            )
        for name in (*self._watched, *self._carried):
            state.pose(name)  # Raises an error for an absent object.
        if self._presses and self.phase != "begin":
            self.client.press(self._points, self.subtask.force, state)
        getattr(self, f"_{self.phase}")(state, time)
        return self.phase == "done"

    @property
    def is_pressing_commanded(self) -> bool:
        """True while contact forces are commanded."""
        return self._presses and self.phase != "begin"

    def interrupt(self) -> None:
        """Stop the motion without releasing contacts; later steps make a new plan."""
        self.client.stop(self.mode)
        self._pending_plan, self._is_prepared = None, False
        self._go("begin" if self.phase == "begin" else "touch")

    def wait(self, time: float) -> None:
        """Extend the time limit of the subtask by a time [s]."""
        self._began += time

    def _go(self, phase: Phase) -> None:
        self.phase, self._since = phase, self._cell.time

    def _begin(self, state: WorldState, time: float) -> None:
        self.client.set_mode(self.mode)
        self.client.clear_wrenches_except({point.arm for point in self._points if self._presses})
        self._go("touch")

    def _touch(self, state: WorldState, time: float) -> None:
        if self._presses:
            if self.client.is_pressing(self.subtask.force_tolerance * self.subtask.force):
                if time - self._since < self.subtask.settling_time:
                    return
                self._on_event("touching", self.client.force_text())
            else:
                self._since = time
                if reason := self.client.contact_problem():
                    raise TaskFailed(reason)
                return
        self._go("plan")

    def _plan(self, state: WorldState, time: float) -> None:
        waits = self.mode != "force" and time - self._since < REST_TIMEOUT
        if waits and not self.client.is_ready(self._presses):
            return
        if self._pending_plan is None:
            self._pending_plan = self._planner.request(self.subtask, self._planning_mode, state)
        if not self._pending_plan.done():
            return
        requested, self._pending_plan = self._pending_plan, None
        if self._is_prepared:
            self._is_prepared = False
            if requested.exception() is not None:
                # No plan was found from the expected state. The next step uses the present state.
                return
            plan = requested.result()
            held = self._points if plan.postures else []
            reason = state.deviation(plan.start, self._concerned, 0.01, held)
            if reason:
                self._on_event("replanned", reason)
                return
        self.plan = requested.result()
        self._on_event("planned", self.plan.words)
        self._motions = self.client.motion_count
        self.client.start_motion(self.plan)
        self.moved_at = self._looked_at = time
        self._off = np.inf
        self._go("move")

    @property
    def _concerned(self) -> set[str]:
        return self._watched | self._carried

    def _move(self, state: WorldState, time: float) -> None:
        plan = self.plan
        if plan is None:
            raise TaskFailed("phase move: the phase before made no plan. Start the task again")
        if self._presses:
            if reason := self.client.contact_problem():
                raise TaskFailed(reason)
            if self.client.is_pressing(self.subtask.force_tolerance * self.subtask.force):
                self._since = time
            elif time - self._since > OUT_OF_BAND_TIME:
                self._count_replan(f"force outside its band: {self.client.force_text()}")
                self.interrupt()
                return
        if cause := self._moved_objects_reason(plan, state, time - self.moved_at):
            self._count_replan(cause)
            self.client.stop(self.mode)
            self._go("plan")
            return
        self.client.set_path_targets(plan, time - self.moved_at)
        if plan.postures and not self.client.has_reached_goal(self._motions):
            self._ended_at = time
            return
        if self._is_there(plan, state) and self._have_tools_stopped(plan, state, time):
            self._go("done")
        elif plan.postures and time - self._ended_at > SETTLE_TIME:
            self._count_replan("ended short of its goal" + self._remaining_errors_text(state))
            self._go("plan")

    def _count_replan(self, reason: str) -> None:
        self.replans += 1
        if self.replans > MAX_REPLANS:
            raise TaskFailed(f"failed after {MAX_REPLANS} new plans: {reason}")
        self._on_event("replanned", reason)

    def _moved_objects_reason(self, plan: SubtaskPlan, state: WorldState, time: float) -> str:
        if not plan.postures:
            return ""
        for name in sorted(self._concerned):
            off: Vector = state.pose(name).position - plan.expected(name, time).position
            if (distance := float(np.linalg.norm(off))) > self.subtask.replan_distance:
                return f"{name} is {distance:.3f} m from its planned position"
        return ""

    def _remaining_errors_text(self, state: WorldState) -> str:
        goals = self.plan.goals if self.plan is not None else ()
        parts = [(goal.frame, *goal.errors(state)) for goal in goals]
        return "".join(f"; {name} is {d:.3f} m, {a:.2f} rad from its goal" for name, d, a in parts)

    def _have_tools_stopped(self, plan: SubtaskPlan, state: WorldState, time: float) -> bool:
        if not plan.straight_paths or not plan.goals:
            return True
        # An object released by a moving tool would fall from above the goal.
        off = sum(goal.errors(state)[0] for goal in plan.goals)
        if time - self._looked_at < ARRIVAL_WINDOW:
            return False
        nearer, self._off, self._looked_at = self._off - off, off, time
        return nearer < ARRIVAL_STEP and time - self.moved_at >= plan.lead_time

    def _is_there(self, plan: SubtaskPlan, state: WorldState) -> bool:
        errors = [goal.errors(state) for goal in plan.goals]
        return all(
            distance <= self.subtask.position_tolerance
            and angle <= self.subtask.orientation_tolerance
            for distance, angle in errors
        )
