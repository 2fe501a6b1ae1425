# SPDX-License-Identifier: Apache-2.0
"""Start planned motions on the arms of a running cell and monitor them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from multipanda_py.cell.commanded_motions import CommandedMotion
from multipanda_py.cell.goals import MotionGoal
from multipanda_py.cell.grippers import Attachments
from multipanda_py.cell.motion_finder import MoveFinder
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.cell.target_writer import TargetWriter
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.control.reference.trajectory_monitor import STATE, MotionState
from multipanda_py.controllets.targets.joint import TRAJECTORY
from multipanda_py.exceptions import (
    MotionFailed,
    MultipandaError,
    PlanRejected,
    TargetRejected,
)
from multipanda_py.planning.motions.motion_request import MotionPlan

START_DELAY = 0.05
"""Time from sending a motion to its start, so that all arms start in one cycle [s]."""


@dataclass
class _StartedPlan:
    motions: Mapping[str, CommandedMotion]
    have_all_arrived: bool = False


class MotionExecution:
    """Start the motions of plans and monitor them until their end.

    Thread: any.
    """

    def __init__(self, names: CellNames, reader: StateReader, targets: TargetWriter) -> None:
        self._names, self._reader, self._targets = names, reader, targets
        self._started_plans: WeakKeyDictionary[MotionPlan, _StartedPlan] = WeakKeyDictionary()

    def check_no_active_motion(self) -> None:
        """Check that no arm executes a motion or has received one that starts later.

        Raises:
            PlanRejected: If an arm has such a motion.
        """
        for arm in self._names.arms:
            spec = self._owner(arm)
            if TRAJECTORY.name not in spec.channel_table:
                continue
            motion = self._targets.motions.newest(spec, spec.config.arms.index(arm))
            is_pending = motion is not None and self._targets.motions.is_pending(motion)
            if is_pending or self._state_of(spec) is MotionState.RUNNING:
                raise PlanRejected(
                    f"{arm}: {spec.name} is executing a motion. Plan after its end, or plan one "
                    "motion for all arms"
                )

    def start(self, plan: MotionPlan) -> float:
        """Start the motions of all moving arms of a plan in the same cycle.

        Returns:
            End of the motion in cell time (:attr:`.Cell.time`) [s].

        Raises:
            TargetRejected: If a controllet rejects its trajectory. No arm moves then.
        """
        specs = {arm: self._owner(arm) for arm in plan.moving}
        for arm, spec in specs.items():
            if TRAJECTORY.name not in spec.channel_table:
                raise TargetRejected(
                    f"{arm}: {spec.name} accepts no trajectories. Switch to a controllet of type "
                    "joint_trajectory first"
                )
        motions, commanded = self._targets.motions, dict[str, CommandedMotion]()
        start = self._reader.time + START_DELAY
        try:
            for arm, spec in specs.items():
                self._targets.follow_trajectory(arm, plan.points[arm], start=start)
                if (one := motions.newest(spec, spec.config.arms.index(arm))) is not None:
                    commanded[arm] = one
        except MultipandaError:
            for arm in commanded:  # An arm must not move if another one cannot.
                self._targets.follow_trajectory(arm, [])
            raise
        self._started_plans[plan] = _StartedPlan(commanded)
        return start + plan.duration

    def is_finished(self, plan: Any) -> bool:
        """Return True if all arms of a plan have reached its goal.

        Raises:
            PlanRejected: If the plan was not started by this object.
            MotionFailed: If a motion ended before its goal. The message contains the reason.
        """
        started = self._started_plans.get(plan) if isinstance(plan, MotionPlan) else None
        if started is None:
            raise PlanRejected(
                f"plan: got {plan!r:.80}, allowed a plan that start_motion() of this cell has "
                "started"
            )
        if not started.have_all_arrived:
            done = [self._has_arrived(arm, one) for arm, one in started.motions.items()]
            started.have_all_arrived = all(done)
        return started.have_all_arrived

    def _has_arrived(self, arm: str, motion: CommandedMotion) -> bool:
        state = self._reader.state(arm)
        if state.fault:
            raise MotionFailed(f"{arm}: the motion ended because of the fault {state.fault}")
        if state.owner != motion.spec.name:
            raise MotionFailed(f"{arm}: the motion ended because {state.owner} took over the arm")
        if not self._targets.motions.is_valid(motion):
            raise MotionFailed(
                f"{arm}: the motion ended because another target replaced it before its goal was "
                "reached"
            )
        if self._targets.motions.is_pending(motion):
            return False  # Until the start, the controllet reports the state of an earlier motion.
        now = self._state_of(motion.spec)
        if now > MotionState.DONE:
            reason = now.name.lower().replace("_", " ")
            raise MotionFailed(f"{arm}: the motion ended before its goal: {reason}")
        return now is MotionState.DONE

    def _owner(self, arm: str) -> InstanceSpec:
        return self._names.spec(self._reader.state(arm).owner)

    def _state_of(self, spec: InstanceSpec) -> MotionState:
        return MotionState(round(self._reader.report(spec.name).value(STATE)))


class Moves:
    """Plan motions of the arms, start them and monitor their execution."""

    def __init__(
        self,
        names: CellNames,
        reader: StateReader,
        targets: TargetWriter,
        holding: Attachments,
        parameters: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._finder = MoveFinder(names, reader, holding, parameters)
        self._execution = MotionExecution(names, reader, targets)
        self._lock = targets.motions.lock

    def plan(
        self,
        goals: Mapping[str, MotionGoal],
        *,
        via: Sequence[Mapping[str, MotionGoal]] = (),
        frame: str = "",
        **options: Any,
    ) -> MotionPlan:
        """Plan a motion without executing it. See :meth:`.Cell.plan`."""
        return self._finder.plan(
            goals, via, frame, options, self._execution.check_no_active_motion
        )

    def start(self, plan: MotionPlan) -> float:
        """Start a plan and return the end of the motion [s]. See :meth:`.Cell.start_motion`."""
        if not isinstance(plan, MotionPlan):
            raise PlanRejected(f"plan: got {plan!r:.40}, allowed a result of plan()")
        with self._lock:  # Two clients may start plans at the same time.
            self._execution.check_no_active_motion()
            self._finder.check(plan)
            return self._execution.start(plan)

    def is_finished(self, plan: MotionPlan) -> bool:
        """Return True if all arms have reached their goals. See :meth:`.Cell.is_finished`."""
        return self._execution.is_finished(plan)
