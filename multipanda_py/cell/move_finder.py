# SPDX-License-Identifier: Apache-2.0
"""Find motions of a cell's arms, from where arms and things are now."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multipanda_py.cell.executing_avoidance import ExecutingAvoidance, executing
from multipanda_py.cell.holding import Holding
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.places import Place, Places
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.channels.trajectory import STILL
from multipanda_py.config.describe import describe_objects
from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.find_move import find_move
from multipanda_py.moves.motion_check import check_motion
from multipanda_py.moves.move_plan import MovePlan
from multipanda_py.moves.move_request import request_of
from multipanda_py.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.robots import SceneObject
from multipanda_py.state import Vector

FLOOR = "floor"
_DEPTH = 0.5


class MoveFinder:
    """Find motions; nothing moves.

    Args:
        names: Of the cell's arms.
        reader: Of its states.
        holding: What hands hold.
        parameters: Function that returns the present parameters of a controllet; by default its
            initial ones.
    """

    def __init__(
        self,
        names: CellNames,
        reader: StateReader,
        holding: Holding,
        parameters: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        self._names, self._reader, self._holding = names, reader, holding
        self._parameters = parameters or (lambda name: names.spec(name).initial_values())
        self._places = Places(names)

    def plan(
        self,
        goals: Mapping[str, Place],
        via: Sequence[Mapping[str, Place]] = (),
        frame: str = "",
        options: Mapping[str, Any] | None = None,
        ready: Callable[[], None] | None = None,
    ) -> MovePlan:
        """Find a motion.

        Args:
            goals: As of :meth:`.Cell.plan`.
            via: Likewise.
            frame: Likewise.
            options: Likewise, by name.
            ready: Raises if arms do not rest, however slow they are.
        """
        request = request_of(self._places.stops(via, goals, frame), options or {})
        if ready is not None:
            ready()
        postures = self._postures()
        held, things = self._holding.held(), self._things()
        scene = self._scene(things, held, postures)
        laws = self._laws()
        law = ExecutingAvoidance(self._names, laws, scene, held, things, request.touching)
        found = find_move(scene, held, request, law)
        duration = max(float(rows[-1, 0]) for rows in found.points.values())
        return MovePlan(
            found.points, duration, postures, things, held, found.nearest, found.reason, laws
        )

    def check(self, plan: MovePlan) -> None:
        """Refuse to begin a plan where arms or things are not as they were planned with.

        Raises:
            PlanRejected: With what is elsewhere, by how much.
        """
        postures, things, held = self._postures(), self._things(), self._holding.held()
        plan.check(postures, things, held)
        laws = self._laws()
        if plan.laws and not all(
            _has_same_avoidance(plan.laws.get(name), now) for name, now in laws.items()
        ):
            law = ExecutingAvoidance(
                self._names, laws, self._scene(things, held, postures), held, things
            )
            n = sum(len(q) for q in postures.values())
            checked = check_motion(plan.rows(), n, None, law, len(plan.rows()))
            if checked.reason or checked.rows[-1, 0] > plan.duration:
                why = checked.reason or "it is too fast for their collision_avoidance"
                raise PlanRejected(
                    f"plan: it does not suit {', '.join(laws)} with the present parameters: "
                    f"{why}; plan again"
                )

    def _scene(
        self, things: Mapping[str, Pose], held: Mapping[str, str], postures: Mapping[str, Vector]
    ) -> Scene:
        return Scene(
            [self._names.descriptions[arm] for arm in self._names.arms],
            self._solids(things, [*held.values()]),
            postures,
        )

    def _laws(self) -> dict[str, Mapping[str, Any]]:
        """Return the present parameters of the controllets that execute motions, by name."""
        owners = {arm: self._reader.state(arm).owner for arm in self._names.arms}
        return {
            spec.name: dict(self._parameters(spec.name)) for spec in executing(self._names, owners)
        }

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
        found = [] if FLOOR in things else [self._floor()]
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

    def _floor(self) -> SceneObject:
        """Return the floor, at z = 0 or at the lowest base if that is below."""
        arms = self._names.descriptions.values()
        height = min(0.0, *(float(arm.position_base_in_world[2]) for arm in arms))
        return SceneObject(FLOOR, "box", (5.0, 5.0, _DEPTH), np.array([0.0, 0.0, height - _DEPTH]))


def _has_same_avoidance(planned: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    """Return whether the parameters of collision_avoidance are those that a plan was made with."""
    return planned is not None and all(
        planned.get(name) == value
        for name, value in now.items()
        if name.startswith("collision_avoidance.")
    )
