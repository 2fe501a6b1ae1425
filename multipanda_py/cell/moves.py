# SPDX-License-Identifier: Apache-2.0
"""Move arms of a running cell to places without touching anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.holding import Holding
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.cell.target_writer import TargetWriter
from multipanda_py.channels.trajectory import STILL, TRAJECTORY
from multipanda_py.config.describe import bases_in_world, describe_objects
from multipanda_py.control.motion_watch import STATE, MotionState
from multipanda_py.exceptions import MotionFailed, MultipandaError, PlanRejected, TargetRejected
from multipanda_py.moves.move_plan import MovePlan
from multipanda_py.pose import Pose
from multipanda_py.robots import SceneObject
from multipanda_py.state import Vector

Place: TypeAlias = Pose | ArrayLike
AHEAD = 0.05
"""How long after it is handed over a motion begins, so that all arms begin in one cycle [s]."""
FLOOR = "floor"
_FLOOR = SceneObject(FLOOR, "box", (5.0, 5.0, 0.5), np.array([0.0, 0.0, -0.5]))


class Moves:
    """Find motions and have arms make them.

    Args:
        names: Of the cell's arms.
        reader: Of its states.
        targets: Where trajectories go.
        holding: What hands hold.
    """

    def __init__(
        self, names: CellNames, reader: StateReader, targets: TargetWriter, holding: Holding
    ) -> None:
        self._names, self._reader = names, reader
        self._targets, self._holding = targets, holding

    def plan(
        self,
        goals: Mapping[str, Place],
        *,
        via: Sequence[Mapping[str, Place]] = (),
        frame: str = "",
        **options: Any,
    ) -> MovePlan:
        """Find a motion; nothing moves. See :meth:`.Cell.plan`."""
        from multipanda_py.moves.find_move import MoveRequest, find_move
        from multipanda_py.optimiser.scene import Scene

        stops = [self._in_world(places, frame) for places in (*via, goals)]
        request = MoveRequest(stops, **options)
        request.check()
        postures = self._postures()
        held, things = self._holding.held(), self._things()
        scene = Scene(
            [self._names.descriptions[arm] for arm in self._names.arms],
            self._solids(things, [*held.values()]),
            postures,
        )
        found = find_move(scene, held, request)
        duration = max(float(rows[-1, 0]) for rows in found.points.values())
        return MovePlan(found.points, duration, postures, things, found.nearest, found.reason)

    def begin(self, plan: MovePlan) -> float:
        """Have all arms of a plan that move begin together; see :meth:`.Cell.begin_move`.

        Returns:
            Time of the controlled world at which the motion ends [s].
        """
        plan.check(self._postures(), self._things())
        for arm in plan.moving:
            owner = self._names.spec(self._reader.state(arm).owner)
            if TRAJECTORY.name not in owner.channel_table:
                raise TargetRejected(
                    f"{arm}: got a motion, and {owner.name} takes no trajectory; switch to a law "
                    "of type joint_trajectory first"
                )
        begin, given = self._reader.time + AHEAD, []
        try:
            for arm in plan.moving:
                self._targets.follow(arm, plan.points[arm], start=begin)
                given.append(arm)
        except MultipandaError:
            for arm in given:  # no arm goes alone
                self._targets.follow(arm, [])
            raise
        return begin + plan.duration

    def has_ended(self, plan: MovePlan) -> bool:
        """Return whether all arms of a plan have come to its goal.

        Raises:
            MotionFailed: If one ended before that, with why.
        """
        done = True
        for arm in plan.moving:
            state = self._reader.state(arm)
            if state.fault:
                raise MotionFailed(f"{arm}: the motion ended in a fault: {state.fault}")
            told = self._reader.report(state.owner)
            if STATE.name not in told:
                raise MotionFailed(f"{arm}: the motion ended as {state.owner} took the arm")
            now = MotionState(int(told[STATE.name]))
            if now > MotionState.DONE:
                why = now.name.lower().replace("_", " ")
                raise MotionFailed(f"{arm}: the motion ended before its goal: {why}")
            done = done and now is MotionState.DONE
        return done

    def _postures(self) -> dict[str, Vector]:
        """Return where all arms are.

        Raises:
            PlanRejected: If one moves.
        """
        states = {arm: self._reader.state(arm) for arm in self._names.arms}
        for arm, state in states.items():
            fastest = float(np.abs(state.dq).max())
            if not fastest <= STILL:
                raise PlanRejected(
                    f"{arm}: got a joint that moves at {fastest:.3f} rad/s, allowed arms at rest "
                    f"(up to {STILL:g})"
                )
        return {arm: state.q for arm, state in states.items()}

    def _in_world(self, places: Mapping[str, Place], frame: str) -> dict[str, Pose | Vector]:
        """Return poses in the world, and postures as arrays.

        Raises:
            UnknownName: If there is no such arm or frame.
            PlanRejected: If a posture is none of the arm's.
        """
        bases, found = bases_in_world(self._names.config), dict[str, Pose | Vector]()
        for arm, place in places.items():
            limits = self._names.limits(arm)
            if isinstance(place, Pose):
                base = bases[arm]
                found[arm] = base @ self._targets.frames.base_from(frame, arm) @ place
                continue
            try:
                posture = np.asarray(place, dtype=np.float64)
            except (TypeError, ValueError):
                raise PlanRejected(f"{arm}: got {place!r:.60}, allowed a pose or joints") from None
            if posture.shape != (limits.n_joints,) or not np.isfinite(posture).all():
                raise PlanRejected(
                    f"{arm}: got {posture.shape}, allowed {limits.n_joints} finite numbers"
                )
            found[arm] = posture
        return found

    def _things(self) -> dict[str, Pose]:
        """Return where things are in the world, those that are fixed as they are described."""
        fixed = {
            thing.name: Pose(thing.position, thing.rotation)
            for thing in describe_objects(self._names.config)
            if thing.mass == 0.0
        }
        return {**fixed, **self._reader.objects()}

    def _solids(self, things: Mapping[str, Pose], held: Sequence[str]) -> list[SceneObject]:
        """Return things where they are; those in hands are movable, and there is a floor."""
        found = [] if FLOOR in things else [_FLOOR]
        for thing in describe_objects(self._names.config):
            if thing.name in things:
                pose = things[thing.name]
                mass = max(thing.mass, 1e-3) if thing.name in held else 0.0
                found.append(
                    replace(
                        thing, position=pose.position, rotation=pose.rotation, mass=mass,
                        present=True,
                    )
                )  # fmt: skip
        return found


def goals_by_arm(
    arm: str | Mapping[str, Place],
    goal: Place | None,
    via: Sequence[Place | Mapping[str, Place]],
) -> tuple[Mapping[str, Place], list[Mapping[str, Place]]]:
    """Return goals and places on the way by arm, of one arm or of several.

    Raises:
        PlanRejected: If it is neither the one nor the other.
    """
    if isinstance(arm, str) == (goal is None):
        raise PlanRejected("move_to: got an arm without a goal, or goals by arm and another one")
    goals: Mapping[str, Place] = arm if not isinstance(arm, str) else {arm: goal}  # type: ignore
    stops = []
    for place in via:
        if not isinstance(place, Mapping) and not isinstance(arm, str):
            raise PlanRejected("via: got a place, allowed places by arm, as the goals are")
        stops.append(place if isinstance(place, Mapping) else {str(arm): place})
    return goals, stops
