# SPDX-License-Identifier: Apache-2.0
"""Collision avoidance of the controllets that execute plans, evaluated at configurations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from multipanda_py.cell.names import CellNames
from multipanda_py.channels.trajectory import TRAJECTORY
from multipanda_py.config.describe import describe_for_laws, describe_objects
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.features.collision_avoidance import CollisionAvoidance
from multipanda_py.loop.build import make_context
from multipanda_py.loop.row import row_dtype
from multipanda_py.moves.avoidance import NearBodies
from multipanda_py.moves.grips import grips_of
from multipanda_py.moves.known_places import frames_at
from multipanda_py.optimiser.scene import Scene
from multipanda_py.pose import Pose, quaternion_from_rotation
from multipanda_py.state import ArmState, Vector

SPARE, ROOM = 1e-3, 3e-3
"""Distances in addition to that at which an approach stops [m]. Timed motions keep the first, for
tracking errors. Points of a path keep the second, because the path between them may be nearer."""


def executing(names: CellNames, owners: Mapping[str, str]) -> list[InstanceSpec]:
    """Return the controllets that are going to execute motions of the arms.

    Args:
        names: Names of the cell.
        owners: Active controllet of each arm, by arm. If it takes no trajectory, any controllet of
            the arm that does may replace it.
    """
    found: dict[int, InstanceSpec] = {}
    for arm in names.arms:
        able = [spec for spec in names.specs_of(arm) if TRAJECTORY.name in spec.channel_table]
        own = [spec for spec in able if spec.name == owners.get(arm)]
        found |= {spec.index: spec for spec in own or able}
    return [found[index] for index in sorted(found)]


class ExecutingAvoidance:
    """Collision avoidance of controllets, with their own parameters and geometry.

    Args:
        names: Names of the cell.
        laws: Present parameters of the executing controllets, by controllet.
        scene: Scene of the planner.
        held: Objects in grippers, by arm.
        things: Poses of the present objects in the world, by object.
        touching: Names of objects that grippers may touch.

    Thread: any, one at a time.
    """

    def __init__(
        self,
        names: CellNames,
        laws: Mapping[str, Mapping[str, Any]],
        scene: Scene,
        held: Mapping[str, str],
        things: Mapping[str, Pose],
        touching: Collection[str] = (),
    ) -> None:
        config, arms = names.config, describe_for_laws(names.config)
        movable = [thing for thing in describe_objects(config) if thing.mass > 0.0]
        number = {thing.name: index for index, thing in enumerate(movable)}
        row = np.zeros(1, row_dtype(len(arms), 0, 1, max(arm.n_joints for arm in arms)))
        self._states = [
            ArmState(arm.name, arm.limits, row["arms"][0, index : index + 1].reshape(()))
            for index, arm in enumerate(arms)
        ]
        self._scene, self._touching = scene, frozenset(touching)
        self._columns = [scene.columns[arm.name] for arm in arms]
        self._n = self._columns[-1].stop
        self._objects = np.zeros((len(movable), 7))
        for place, thing in zip(self._objects, movable):
            pose = things.get(thing.name, Pose(thing.start, thing.rotation))
            place[:] = _numbers(pose)
        for state in self._states:
            if state.name in held:
                state.holds[...] = 1 + number[held[state.name]]
        self._grips = [
            (grip.arm, self._objects[number[grip.thing]], grip.pose)
            for grip in grips_of(scene, held)
        ]
        self._features: list[tuple[CollisionAvoidance, tuple[int, ...]]] = []
        for name, own in laws.items():
            spec = names.spec(name)
            parts = iter(spec.decode(spec.encode(own))[1:])
            context = make_context(config, spec, arms, self._states, self._objects)
            for kind, (switch, params) in zip(spec.features.values(), zip(parts, parts)):
                if issubclass(kind, CollisionAvoidance) and switch.enabled:
                    self._features.append((kind(context, params), spec.arms))

        self.near(scene.start[: self._n], 0.0)  # so that pairs include the objects in grippers
        self._meant = {frozenset(pair) for pair in config.collisions.pairs()}
        self._needs: dict[tuple[frozenset[str], bool], float] = {}
        for feature, _ in self._features:
            begins, stops = feature.params.distance, feature.stops_at
            need = stops + min(ROOM, 0.5 * (begins - stops)) if stops > 0.0 else 0.0
            for key in feature.kept_apart():
                self._needs[key] = max(self._needs.get(key, 0.0), need)

    def needs(self, first: str, second: str, gripper: bool) -> float:
        """Return the distance that paths need between two bodies [m]; 0 if none is kept."""
        return self._needs.get((frozenset((first, second)), gripper), 0.0)

    def may_touch(self, first: str, second: str) -> bool:
        """Return whether the cell file allows two bodies to touch."""
        return frozenset((first, second)) in self._meant

    @property
    def begins_at(self) -> float:
        """Largest distance from which a controllet pushes bodies apart [m]."""
        return max((one.params.distance for one, _ in self._features), default=0.0)

    @property
    def stops_at(self) -> float:
        """Largest distance at which a controllet stops an approach [m]; 0 if none does."""
        return max((one.stops_at for one, _ in self._features), default=0.0)

    @property
    def passes_at(self) -> float:
        """Largest distance that paths need so that no controllet stops them [m]."""
        return max(self._needs.values(), default=0.0)

    @property
    def _spare(self) -> float:
        """Distance that motions keep in addition, for tracking errors [m]."""
        return min(SPARE, 0.2 * (self.begins_at - self.stops_at))

    def near(self, q: Vector, within: float) -> list[NearBodies]:
        """Return the pairs nearer than a distance [m] in a configuration of all arms, (n,)."""
        found = []
        self._place(q, np.zeros(self._n))
        for feature, own in self._features:
            order = self._order(own)
            for pair in feature.measure([self._states[arm] for arm in own], within):
                if pair.distance >= within:
                    continue
                gradient = np.zeros(self._n)
                for arm, part in zip(pair.arms, pair.gradients):
                    columns = self._columns[order[arm]]
                    gradient[columns] = part[: columns.stop - columns.start]
                group, place = pair.place
                names = {name for solid in group.solids[place] for name in solid.names}
                may_touch = not self._touching.isdisjoint(names)
                found.append(NearBodies(str(pair), pair.distance, gradient, may_touch))
        return found

    def pace(self, q: Vector, dq: Vector) -> float:
        """Return the allowed fraction of the velocities of all arms, (n,) [rad/s]."""
        self._place(q, dq)
        share, spare = 1.0, self._spare
        for feature, own in self._features:
            for pair in feature.measure([self._states[arm] for arm in own]):
                pair.distance -= spare
            for place, arm in enumerate(own):
                share = min(share, feature.pace(place, dq[self._columns[arm]]))
        return share

    def in_the_way(self, q: Vector, dq: Vector) -> str:
        """Return the names and the distance of the pair that limits these velocities most."""
        self.pace(q, dq)
        words = [
            feature.in_the_way(place, dq[self._columns[arm]])
            for feature, own in self._features
            for place, arm in enumerate(own)
        ]
        return "; ".join(dict.fromkeys(filter(None, words)))

    def _place(self, q: Vector, dq: Vector) -> None:
        """Set the states of the arms and the poses of objects in grippers."""
        for state, columns in zip(self._states, self._columns):
            state.q[:], state.dq[:] = q[columns], dq[columns]
        for arm, place, grip in self._grips:
            tool = frames_at(self._scene, arm, q[self._scene.columns[arm]])["tool"]
            place[:] = _numbers(Pose(tool.translation.copy(), tool.rotation.copy()) @ grip)

    def _order(self, own: Sequence[int]) -> list[int]:
        """Return the indices of all arms, those of a controllet first."""
        return [*own, *(arm for arm in range(len(self._states)) if arm not in own)]


def _numbers(pose: Pose) -> Vector:
    x, y, z, w = quaternion_from_rotation(pose.rotation)
    return np.array([*pose.position, w, x, y, z])
