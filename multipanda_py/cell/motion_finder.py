# SPDX-License-Identifier: Apache-2.0
"""Plan motions from the present state of the arms and objects of a cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from multipanda_py.cell.goals import GoalConverter, MotionGoal
from multipanda_py.cell.grippers import Attachments
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import describe_identified_arms, describe_objects
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.controllets.features.collision_avoidance import CollisionAvoidance
from multipanda_py.controllets.targets.joint import MAX_REST_SPEED, TRAJECTORY
from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.find_motion import find_move
from multipanda_py.planning.motions.motion_check import NearBodies, check_motion
from multipanda_py.planning.motions.motion_request import MotionPlan, frames_at, request_of
from multipanda_py.planning.motions.path_constraints import attached_objects
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.pose import Pose, quaternion_from_rotation
from multipanda_py.realtime.cycle_record import record_dtype
from multipanda_py.realtime.startup import make_context
from multipanda_py.robots import SceneObject
from multipanda_py.state import ArmState, Vector

TRACKING_MARGIN, PATH_MARGIN = 1e-3, 3e-3
"""Distances added to the one at which ``collision_avoidance`` stops an approach [m].

Timed motions keep ``TRACKING_MARGIN``, for tracking errors. Points of a path keep
``PATH_MARGIN``, because the path between them may come nearer."""


def motion_controllets(names: CellNames, owners: Mapping[str, str]) -> list[InstanceSpec]:
    """Return the controllets that may execute planned motions.

    For each arm, this is its active controllet if it accepts trajectories, and otherwise every
    controllet of the arm that accepts them.

    Args:
        names: Names of arms and controllets of the cell.
        owners: Name of the active controllet of each arm, by arm.
    """
    result: dict[int, InstanceSpec] = {}
    for arm in names.arms:
        able = [spec for spec in names.specs_of(arm) if TRAJECTORY.name in spec.channel_table]
        own = [spec for spec in able if spec.name == owners.get(arm)]
        result |= {spec.index: spec for spec in own or able}
    return [result[index] for index in sorted(result)]


class ExecutingAvoidance:
    """Limits of the feature ``collision_avoidance``, which planned motions must keep.

    Args:
        names: Names of arms and controllets of the cell.
        controllet_params: Parameters of the controllets that may execute the motion, by name.
        scene: Scene of the planner.
        held: Names of the attached objects, by arm.
        object_poses: Poses of the objects in the world, by object.
        touching: Names of objects that grippers may touch during the motion.

    Thread: any, one at a time.
    """

    def __init__(
        self,
        names: CellNames,
        controllet_params: Mapping[str, Mapping[str, Any]],
        scene: Scene,
        held: Mapping[str, str],
        object_poses: Mapping[str, Pose],
        touching: Collection[str] = (),
    ) -> None:
        config, arms = names.config, describe_identified_arms(names.config)
        movable = [
            scene_object for scene_object in describe_objects(config) if scene_object.mass > 0.0
        ]
        number = {scene_object.name: index for index, scene_object in enumerate(movable)}
        row = np.zeros(1, record_dtype(len(arms), 0, 1, max(arm.n_joints for arm in arms)))
        self._states = [
            ArmState(arm.name, arm.limits, row["arms"][0, index : index + 1].reshape(()))
            for index, arm in enumerate(arms)
        ]
        self._scene, self._touching = scene, frozenset(touching)
        self._columns = [scene.columns[arm.name] for arm in arms]
        self._n = self._columns[-1].stop
        self._object_poses = np.zeros((len(movable), 7))
        for pose_values, obj in zip(self._object_poses, movable):
            pose = object_poses.get(obj.name, Pose(obj.start, obj.rotation))
            pose_values[:] = _numbers(pose)
        for state in self._states:
            if state.name in held:
                state.attached_object[...] = 1 + number[held[state.name]]
        self._grips = [
            (grip.arm, self._object_poses[number[grip.object_name]], grip.pose)
            for grip in attached_objects(scene, held)
        ]
        self._features: list[tuple[CollisionAvoidance, tuple[int, ...]]] = []
        for name, own in controllet_params.items():
            spec = names.spec(name)
            parts = iter(spec.decode(spec.encode(own))[1:])
            context = make_context(config, spec, arms, self._states, self._object_poses)
            for kind, (switch, params) in zip(spec.features.values(), zip(parts, parts)):
                if issubclass(kind, CollisionAvoidance) and switch.enabled:
                    self._features.append((kind(context, params), spec.arms))

        # This call sets the poses of attached objects.
        self.close_pairs(scene.start[: self._n], 0.0)
        self._meant = {frozenset(pair) for pair in config.collisions.pairs()}
        self._needs: dict[tuple[frozenset[str], bool], float] = {}
        for feature, _ in self._features:
            begins, stops = feature.params.distance, feature.stops_at
            need = stops + min(PATH_MARGIN, 0.5 * (begins - stops)) if stops > 0.0 else 0.0
            for key in feature.avoided_pairs():
                self._needs[key] = max(self._needs.get(key, 0.0), need)

    def min_distance(self, first: str, second: str, gripper: bool) -> float:
        """Return the distance that two bodies must keep on a path [m]; 0 for no minimum.

        Args:
            first: Name of the first body.
            second: Name of the second body.
            gripper: True if one of the bodies is a gripper.
        """
        return self._needs.get((frozenset((first, second)), gripper), 0.0)

    def may_touch(self, first: str, second: str) -> bool:
        """Return True if the cell file allows contact between two bodies.

        Bodies are arms, grippers (``left/hand``) and objects.
        """
        return frozenset((first, second)) in self._meant

    @property
    def begins_at(self) -> float:
        """Distance below which collision avoidance pushes bodies apart [m]."""
        return max((one.params.distance for one, _ in self._features), default=0.0)

    @property
    def stops_at(self) -> float:
        """Distance below which collision avoidance stops an approach [m]; 0 if it never does."""
        return max((one.stops_at for one, _ in self._features), default=0.0)

    @property
    def free_distance(self) -> float:
        """Maximum of :meth:`min_distance` over all pairs of bodies [m]."""
        return max(self._needs.values(), default=0.0)

    @property
    def _tracking_margin(self) -> float:
        return min(TRACKING_MARGIN, 0.2 * (self.begins_at - self.stops_at))

    def close_pairs(self, q: Vector, within: float) -> list[NearBodies]:
        """Return the pairs of bodies closer than ``within`` [m] at the joint positions q [rad]."""
        result = []
        self._set_states(q, np.zeros(self._n))
        for feature, own in self._features:
            order = self._order(own)
            for pair in feature.measure([self._states[arm] for arm in own], within):
                if pair.distance >= within:
                    continue
                gradient = np.zeros(self._n)
                for arm, part in zip(pair.arms, pair.gradients):
                    columns = self._columns[order[arm]]
                    gradient[columns] = part[: columns.stop - columns.start]
                group, index = pair.index
                names = {name for solid in group.solids[index] for name in solid.names}
                may_touch = not self._touching.isdisjoint(names)
                result.append(NearBodies(str(pair), pair.distance, gradient, may_touch))
        return result

    def velocity_scale(self, q: Vector, dq: Vector) -> float:
        """Return the factor, 0 to 1, by which collision avoidance would scale joint velocities.

        Arguments are joint positions [rad] and velocities [rad/s] of all arms, (n,).
        """
        self._set_states(q, dq)
        scale, spare = 1.0, self._tracking_margin
        for feature, own in self._features:
            for pair in feature.measure([self._states[arm] for arm in own]):
                pair.distance -= spare
            for index, arm in enumerate(own):
                scale = min(scale, feature.velocity_scale(index, dq[self._columns[arm]]))
        return scale

    def blocked_by(self, q: Vector, dq: Vector) -> str:
        """Return a text on the pairs of bodies that limit the velocities most.

        Arguments are those of :meth:`velocity_scale`.
        """
        self.velocity_scale(q, dq)
        words = [
            feature.blocked_by(index, dq[self._columns[arm]])
            for feature, own in self._features
            for index, arm in enumerate(own)
        ]
        return "; ".join(dict.fromkeys(filter(None, words)))

    def _set_states(self, q: Vector, dq: Vector) -> None:
        for state, columns in zip(self._states, self._columns):
            state.q[:], state.dq[:] = q[columns], dq[columns]
        for arm, pose_values, grip in self._grips:
            tool = frames_at(self._scene, arm, q[self._scene.columns[arm]])["tool"]
            pose_values[:] = _numbers(Pose(tool.translation.copy(), tool.rotation.copy()) @ grip)

    def _order(self, own: Sequence[int]) -> list[int]:
        return [*own, *(arm for arm in range(len(self._states)) if arm not in own)]


def _numbers(pose: Pose) -> Vector:
    x, y, z, w = quaternion_from_rotation(pose.rotation)
    return np.array([*pose.position, w, x, y, z])


FLOOR = "floor"
_DEPTH = 0.5  # Half height of the box that represents the floor [m].


class MoveFinder:
    """Planner of motions that start at the present state of a cell.

    Args:
        names: Names of arms and controllets of the cell.
        reader: State reader of the cell.
        holding: Attachments of objects to grippers.
        parameters: Function that returns the present parameters of a controllet; None to use the
            parameters in the cell file.
    """

    def __init__(
        self,
        names: CellNames,
        reader: StateReader,
        holding: Attachments,
        parameters: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        self._names, self._reader, self._holding = names, reader, holding
        self._parameters = parameters or (lambda name: names.spec(name).initial_values())
        self._goals = GoalConverter(names)

    def plan(
        self,
        goals: Mapping[str, MotionGoal],
        via: Sequence[Mapping[str, MotionGoal]] = (),
        frame: str = "",
        options: Mapping[str, Any] | None = None,
        ready: Callable[[], None] | None = None,
    ) -> MotionPlan:
        """Plan a motion. See :meth:`.Cell.plan`.

        ``ready`` raises an error if an arm executes a motion; None for no check.
        """
        request = request_of(self._goals.waypoints(via, goals, frame), options or {})
        if ready is not None:
            ready()
        postures = self._resting_configurations()
        held, objects = self._holding.attached_objects(), self._object_poses()
        scene = self._scene(objects, held, postures)
        laws = self._executing_parameters()
        law = ExecutingAvoidance(self._names, laws, scene, held, objects, request.allowed_contacts)
        result = find_move(scene, held, request, law)
        duration = max(float(rows[-1, 0]) for rows in result.points.values())
        return MotionPlan(
            result.points, duration, postures, objects, held, result.nearest, result.reason, laws
        )

    def check(self, plan: MotionPlan) -> None:
        """Check that a plan fits the present state of the cell.

        Raises:
            PlanRejected: If an arm or object has moved, attachments have changed, or changed
                parameters of collision avoidance require a slower motion.
        """
        postures, objects, held = (
            self._resting_configurations(),
            self._object_poses(),
            self._holding.attached_objects(),
        )
        plan.check(postures, objects, held)
        laws = self._executing_parameters()
        if plan.controllet_params and not all(
            _has_equal_avoidance_params(plan.controllet_params.get(name), now)
            for name, now in laws.items()
        ):
            law = ExecutingAvoidance(
                self._names, laws, self._scene(objects, held, postures), held, objects
            )
            n = sum(len(q) for q in postures.values())
            checked = check_motion(plan.rows(), n, None, law, len(plan.rows()))
            if checked.reason or checked.rows[-1, 0] > plan.duration:
                reason = (
                    checked.reason
                    or "it is too fast for the collision_avoidance of these controllets"
                )
                raise PlanRejected(
                    f"plan: does not fit the present parameters of {', '.join(laws)}: "
                    f"{reason}. Plan again"
                )

    def _scene(
        self, objects: Mapping[str, Pose], held: Mapping[str, str], postures: Mapping[str, Vector]
    ) -> Scene:
        return Scene(
            [self._names.descriptions[arm] for arm in self._names.arms],
            self._planner_objects(objects, [*held.values()]),
            postures,
        )

    def _executing_parameters(self) -> dict[str, Mapping[str, Any]]:
        owners = {arm: self._reader.state(arm).owner for arm in self._names.arms}
        return {
            spec.name: dict(self._parameters(spec.name))
            for spec in motion_controllets(self._names, owners)
        }

    def _resting_configurations(self) -> dict[str, Vector]:
        states = {arm: self._reader.state(arm) for arm in self._names.arms}
        for arm, state in states.items():
            fastest = float(np.abs(state.dq).max())
            if not fastest <= MAX_REST_SPEED:
                raise PlanRejected(
                    f"{arm}: a joint moves at {fastest:.3f} rad/s, allowed up to "
                    f"{MAX_REST_SPEED:g} rad/s. Plan when the arm is at rest"
                )
        return {arm: state.q for arm, state in states.items()}

    def _object_poses(self) -> dict[str, Pose]:
        fixed = {
            obj.name: Pose(obj.position, obj.rotation)
            for obj in describe_objects(self._names.config)
            if obj.mass == 0.0
        }
        return {**fixed, **self._reader.objects()}

    def _planner_objects(
        self, objects: Mapping[str, Pose], held: Sequence[str]
    ) -> list[SceneObject]:
        solids = [] if FLOOR in objects else [self._floor_below_arms()]
        for obj in describe_objects(self._names.config):
            if obj.name in objects:
                pose = objects[obj.name]
                # The planner treats an object with mass 0 as fixed.
                mass = max(obj.mass, 1e-3) if obj.name in held else 0.0
                solids.append(
                    replace(
                        obj, position=pose.position, rotation=pose.rotation, mass=mass,
                        present=True,
                    )
                )  # fmt: skip
        return solids

    def _floor_below_arms(self) -> SceneObject:
        arms = self._names.descriptions.values()
        height = min(0.0, *(float(arm.position_base_in_world[2]) for arm in arms))
        return SceneObject(FLOOR, "box", (5.0, 5.0, _DEPTH), np.array([0.0, 0.0, height - _DEPTH]))


def _has_equal_avoidance_params(planned: Mapping[str, Any] | None, now: Mapping[str, Any]) -> bool:
    return planned is not None and all(
        planned.get(name) == value
        for name, value in now.items()
        if name.startswith("collision_avoidance.")
    )
