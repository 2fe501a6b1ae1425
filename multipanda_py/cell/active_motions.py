# SPDX-License-Identifier: Apache-2.0
"""Move arms of a running cell to places without touching anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from multipanda_py.cell.attached_objects import Holding
from multipanda_py.cell.commanded_motions import GivenMotion
from multipanda_py.cell.goals import Place
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
from multipanda_py.planning.motions.motion_request import MovePlan

AHEAD = 0.05
"""How long after it is handed over a motion begins, so that all arms begin in one cycle [s]."""


@dataclass
class _Begun:
    """What arms were told of a plan, and whether all have been seen at its goal."""

    told: Mapping[str, GivenMotion]
    is_done: bool = False


class BegunMoves:
    """Hand plans over, and say what has become of them.

    Args:
        names: Of the cell's arms.
        reader: Of its states.
        targets: Where trajectories go.

    Thread: any.
    """

    def __init__(self, names: CellNames, reader: StateReader, targets: TargetWriter) -> None:
        self._names, self._reader, self._targets = names, reader, targets
        self._begun: WeakKeyDictionary[MovePlan, _Begun] = WeakKeyDictionary()

    def refuse_under_way(self) -> None:
        """Refuse to count arms as resting that have been told to move, by whomever.

        A motion begins slowly, and some time after it was told: how fast joints are says nothing.

        Raises:
            PlanRejected: With the arm, and its law.
        """
        for arm in self._names.arms:
            spec = self._owner(arm)
            if TRAJECTORY.name not in spec.channel_table:
                continue
            motion = self._targets.motions.newest(spec, spec.config.arms.index(arm))
            is_to_begin = motion is not None and self._targets.motions.is_to_begin(motion)
            if is_to_begin or self._state_of(spec) is MotionState.RUNNING:
                raise PlanRejected(
                    f"{arm}: got a motion of {spec.name} that has begun, allowed arms at rest; "
                    "plan once it has ended, or one motion for all arms"
                )

    def begin(self, plan: MovePlan) -> float:
        """Have all arms that move begin together.

        Returns:
            Time of the controlled world at which the motion ends [s].

        Raises:
            TargetRejected: If a law does not take it; no arm moves.
        """
        specs = {arm: self._owner(arm) for arm in plan.moving}
        for arm, spec in specs.items():
            if TRAJECTORY.name not in spec.channel_table:
                raise TargetRejected(
                    f"{arm}: got a motion, and {spec.name} takes no trajectory; switch to a law "
                    "of type joint_trajectory first"
                )
        motions, told = self._targets.motions, dict[str, GivenMotion]()
        begin = self._reader.time + AHEAD
        try:
            for arm, spec in specs.items():
                self._targets.follow(arm, plan.points[arm], start=begin)
                if (one := motions.newest(spec, spec.config.arms.index(arm))) is not None:
                    told[arm] = one
        except MultipandaError:
            for arm in told:  # no arm goes alone
                self._targets.follow(arm, [])
            raise
        self._begun[plan] = _Begun(told)
        return begin + plan.duration

    def has_ended(self, plan: Any) -> bool:
        """Return whether all arms of a plan have come to its goal.

        Raises:
            PlanRejected: If it is no plan that was begun here.
            MotionFailed: If a motion ended before its goal, with why.
        """
        begun = self._begun.get(plan) if isinstance(plan, MovePlan) else None
        if begun is None:
            raise PlanRejected(
                f"plan: got {plan!r:.80}, allowed one that begin_move has begun on this cell"
            )
        if not begun.is_done:
            done = [self._has_arrived(arm, one) for arm, one in begun.told.items()]  # all of them
            begun.is_done = all(done)
        return begun.is_done

    def _has_arrived(self, arm: str, motion: GivenMotion) -> bool:
        state = self._reader.state(arm)
        if state.fault:
            raise MotionFailed(f"{arm}: the motion ended in a fault: {state.fault}")
        if state.owner != motion.spec.name:
            raise MotionFailed(f"{arm}: the motion ended as {state.owner} took the arm")
        if not self._targets.motions.counts(motion):
            raise MotionFailed(
                f"{arm}: the motion ended as another target took its place, before it was seen "
                "at its goal"
            )
        if self._targets.motions.is_to_begin(motion):
            return False  # what is reported is of the motion before
        now = self._state_of(motion.spec)
        if now > MotionState.DONE:
            why = now.name.lower().replace("_", " ")
            raise MotionFailed(f"{arm}: the motion ended before its goal: {why}")
        return now is MotionState.DONE

    def _owner(self, arm: str) -> InstanceSpec:
        return self._names.spec(self._reader.state(arm).owner)

    def _state_of(self, spec: InstanceSpec) -> MotionState:
        return MotionState(round(self._reader.report(spec.name).value(STATE)))


class Moves:
    """Find motions and have arms make them.

    Args:
        names: Of the cell's arms.
        reader: Of its states.
        targets: Where trajectories go.
        holding: What hands hold.
        parameters: Function that returns the present parameters of a controllet.
    """

    def __init__(
        self,
        names: CellNames,
        reader: StateReader,
        targets: TargetWriter,
        holding: Holding,
        parameters: Callable[[str], Mapping[str, Any]],
    ) -> None:
        self._finder = MoveFinder(names, reader, holding, parameters)
        self._begun, self._lock = BegunMoves(names, reader, targets), targets.motions.lock

    def plan(
        self,
        goals: Mapping[str, Place],
        *,
        via: Sequence[Mapping[str, Place]] = (),
        frame: str = "",
        **options: Any,
    ) -> MovePlan:
        """Find a motion; nothing moves. See :meth:`.Cell.plan`."""
        return self._finder.plan(goals, via, frame, options, self._begun.refuse_under_way)

    def begin(self, plan: MovePlan) -> float:
        """Have all arms of a plan that move begin together; see :meth:`.Cell.begin_move`.

        Returns:
            Time of the controlled world at which the motion ends [s].
        """
        if not isinstance(plan, MovePlan):
            raise PlanRejected(f"plan: got {plan!r:.40}, allowed what plan() returns")
        with self._lock:  # of two that are begun at once one is too late
            self._begun.refuse_under_way()
            self._finder.check(plan)
            return self._begun.begin(plan)

    def has_ended(self, plan: MovePlan) -> bool:
        """Return whether all arms of a plan have come to its goal; see :meth:`.Cell.has_ended`."""
        return self._begun.has_ended(plan)
