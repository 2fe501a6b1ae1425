# SPDX-License-Identifier: Apache-2.0
"""Goals of a subtask, straight tool paths, and the distances that bodies keep."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from multipanda_py.planning.optimiser.distance import Distance, clearances
from multipanda_py.planning.optimiser.free_space import BETWEEN_FRACTION, BETWEEN_TOLERANCE
from multipanda_py.planning.optimiser.kinematics import Kinematics, Slices
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solids import ARM_PARTS, MAX_TOUCH_OVERLAP, solids_of
from multipanda_py.planning.tasks.sections import Subtask
from multipanda_py.planning.tasks.world_state import TOOL_SUFFIX, ContactPoint, WorldState
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.state import Matrix, Vector


@dataclass(frozen=True, eq=False)
class GoalPose:
    """Goal for the pose of a frame in another frame; components that are None are free.

    Attributes:
        frame: ``ARM/tool`` or the name of an object.
        base: Frame to which the goal is relative.
        position: Position of the origin, (3,) [m].
        rotation: Rotation matrix, (3, 3).
        direction: Direction of the z axis, unit vector, (3,).
    """

    frame: str
    base: str
    position: Vector | None = None
    rotation: Matrix | None = None
    direction: Vector | None = None

    def errors(self, state: WorldState) -> tuple[float, float]:
        """Return the distance [m] and angle [rad] from the goal; 0 for free components."""
        here = state.pose(self.base).inverse() @ state.pose(self.frame)
        distance = angle = 0.0
        if self.position is not None:
            distance = float(np.linalg.norm(here.position - self.position))
        if self.rotation is not None:
            _, angle = Pose(here.position, self.rotation).distance(here)
        if self.direction is not None:
            cosine = float(here.rotation[:, 2] @ self.direction)
            angle = max(angle, math.acos(max(-1.0, min(1.0, cosine))))
        return distance, angle

    def in_world(self, state: WorldState) -> Pose:
        """Return the goal pose in the world. Free components keep their present value."""
        base = state.pose(self.base)
        here = base.inverse() @ state.pose(self.frame)
        position = here.position if self.position is None else self.position
        rotation = here.rotation if self.rotation is None else self.rotation
        return base @ Pose(position, rotation)


def subtask_goals(
    subtask: Subtask, points: Sequence[ContactPoint], state: WorldState
) -> list[GoalPose]:
    """Return the goals of a subtask, those from the task file first.

    Without a force, each tool with a contact has a goal at ``approach_distance`` outside the
    contact point, with its z axis along the inward normal.
    """
    result = list(_listed_goals(subtask, state))
    if subtask.force == 0.0:
        result += [
            GoalPose(
                point.arm + TOOL_SUFFIX,
                point.object_name,
                point.point - subtask.approach_distance * point.inward,
                direction=point.inward,
            )
            for point in points
        ]
    return result


def _listed_goals(subtask: Subtask, state: WorldState) -> Iterator[GoalPose]:
    for goal in subtask.goals:
        position, direction = None, None
        if goal.position is not None:
            position = np.array(goal.position)
        elif goal.offset is not None:
            here = state.pose(goal.base).inverse() @ state.pose(goal.frame)
            position = here.position + goal.offset
        if goal.z_axis is not None:
            direction = np.array(goal.z_axis) / np.linalg.norm(goal.z_axis)
        rotation = None
        if goal.rpy is not None:
            rotation = Pose.from_rpy(np.zeros(3), goal.rpy).rotation
        elif direction is None and not goal.frame.endswith(TOOL_SUFFIX):
            # An object keeps its present orientation, so that it stays level.
            rotation = (state.pose(goal.base).inverse() @ state.pose(goal.frame)).rotation
        yield GoalPose(goal.frame, goal.base, position, rotation, direction)


MAX_TOOL_SPEED, MAX_TOOL_ANGULAR_SPEED = 0.07, 0.35
"""Maximum speed [m/s] and angular speed [rad/s] of tools without a plan. They are below the
default limits of the controllet."""


@dataclass(frozen=True, eq=False)
class StraightPath:
    """Straight path of a tool, or of an object with the tool that holds it.

    Attributes:
        start: Initial pose in the world of the tool or object.
        end: Final pose in the world of the tool or object.
        tool: Pose of the tool in the frame of the object; the identity for a path of the tool.
    """

    start: Pose
    end: Pose
    tool: Pose

    @property
    def time(self) -> float:
        """Duration of the path [s]."""
        distance, angle = self.start.distance(self.end)
        return max(distance / MAX_TOOL_SPEED, angle / MAX_TOOL_ANGULAR_SPEED)

    def sample(self, fraction: float) -> Pose:
        """Return the tool pose in the world at a fraction of the path, 0 to 1."""
        return self.start.interpolate(self.end, fraction) @ self.tool


FLOOR_OBJECT = SceneObject("floor", "box", (5.0, 5.0, 0.5), np.array([0.0, 0.0, -0.5]))
"""Floor at height 0, below all objects."""


def as_objects(arm: ArmDescription, configuration: Vector) -> list[SceneObject]:
    """Return the capsules of an arm that is not part of a task, as fixed objects.

    Args:
        arm: Description of the arm, with its base in the world.
        configuration: Joint positions of the arm, (n,) [rad, m].

    Returns:
        Capsules and spheres in the world.
    """
    scene = Scene([arm], (), {arm.name: configuration})
    solids = solids_of(scene, arm.name)
    placed = (
        Kinematics(scene, [solid.frame for solid in solids])
        .forward_kinematics(scene.start[None])
        .frames
    )
    result = []
    for number, solid in enumerate(solids):
        frame = placed[solid.frame]
        rotation_step, at = frame.rotation[0], frame.position[0]
        axis = rotation_step @ (solid.end - solid.start)
        length = float(np.linalg.norm(axis))
        centre = at + rotation_step @ (0.5 * (solid.start + solid.end))
        name = f"{arm.name} {number}"
        if length < 1e-9:
            result.append(SceneObject(name, "sphere", (solid.radius,), centre))
            continue
        z = axis / length
        x = np.cross(z, np.eye(3)[np.abs(z).argmin()])
        x /= np.linalg.norm(x)
        rotation = np.stack([x, np.cross(z, x), z], 1)
        size = (solid.radius, 0.5 * length)
        result.append(SceneObject(name, "capsule", size, centre, rotation))
    return result


CHECKS_PER_STEP = 4
"""Number of checked configurations from one time step of a plan to the next."""
PATH_OVERLAP = 2e-3
"""Additional overlap allowed along a path for bodies that overlap at its start or end [m]."""


@dataclass(frozen=True)
class AllowedContacts:
    """Bodies that may come into contact during a subtask.

    Attributes:
        touched: Pairs of an arm and an object that the gripper of this arm may touch.
        placed: Final poses of carried objects in the world. There they may be close to other
            objects.
        touching: Names of objects that all grippers may touch, and on which carried objects may
            rest.
    """

    touched: Collection[tuple[str, str]]
    placed: Mapping[str, Pose]
    touching: Collection[str] = ()


def distance_constraints(
    scene: Scene, desired: AllowedContacts, clearance: float
) -> list[Distance]:
    """Return the minimum distances of pairs of bodies during a subtask, as constraints.

    Pairs that start closer than the clearance must keep half of their initial distance, or of the
    final one for two objects if it is smaller. Links may come close to an object that their
    gripper may touch, without overlap.

    Args:
        scene: Scene in which only carried objects are movable.
        desired: Allowed contacts, and final poses of carried objects.
        clearance: Minimum distance of bodies without an allowed contact [m].

    Thread: any.
    """
    result = [one for one in _pairs(scene, desired, clearance) if one.pairs]
    ends = np.stack([scene.start, scene.configuration({}, desired.placed)])
    frames = dict.fromkeys(name for one in result for name in one.frames)
    there = Kinematics(scene, frames).forward_kinematics(ends)
    return [selected for one in result for selected in _reduced_if_close(scene, one, there)]


def is_clear(distances: Collection[Distance], scene: Scene, path: Matrix) -> bool:
    """Return True if a path keeps its distances at its time steps and between them."""
    frames = dict.fromkeys(name for one in distances for name in one.frames)
    if not frames:
        return True
    whole = np.concatenate([scene.start[None], path])
    fraction = np.arange(1, CHECKS_PER_STEP + 1)[:, None] / CHECKS_PER_STEP
    dense = (whole[:-1, None] + fraction * np.diff(whole, axis=0)[:, None]).reshape(-1, scene.size)
    placed = Kinematics(scene, frames).forward_kinematics(dense)
    return all(
        float(one.evaluate(placed)[0].max())
        <= max(BETWEEN_FRACTION * one.margin, 0.0) + BETWEEN_TOLERANCE
        for one in distances
    )


def _pairs(scene: Scene, desired: AllowedContacts, clearance: float) -> Iterator[Distance]:
    for one in clearances(scene, (), clearance):
        arm, obj = one.of  # The arm is the first body of a distance.
        if (arm, obj) in desired.touched or obj in desired.touching:
            yield Distance(scene, arm, obj, 0.0, parts="arm")
            yield Distance(scene, arm, obj, -MAX_TOUCH_OVERLAP, parts="hand")
        else:
            yield one
    others = [scene_object for scene_object in scene.objects if scene_object not in scene.movable]
    for obj, other in product(scene.movable, others):
        yield Distance(
            scene, obj, other, -MAX_TOUCH_OVERLAP if other in desired.touching else clearance
        )


def _reduced_if_close(scene: Scene, constraint: Distance, ends: Slices) -> Iterator[Distance]:
    # The end counts for a pair of objects, because goals determine their final poses. It does not
    # count for arms, because their final configurations are unknown.
    has_objects_only = all(name in scene.objects for name in constraint.of)
    values, _ = constraint.evaluate(ends if has_objects_only else ends.part(slice(0, 1)))
    nearest = constraint.margin - float(values.max(initial=-np.inf))
    if nearest >= constraint.margin:
        yield constraint
    elif (
        constraint.parts == "all"
        and constraint.of[0] in scene.arms
        and constraint.of[1] in scene.objects
    ):
        for part in ARM_PARTS:  # A gripper near an object must not reduce the margin of the links.
            yield from _reduced_if_close(
                scene, Distance(scene, *constraint.of, constraint.margin, part), ends
            )
    else:
        min_value = 0.5 * nearest if nearest > 0.0 else nearest - PATH_OVERLAP
        yield Distance(scene, *constraint.of, min_value, constraint.parts)
