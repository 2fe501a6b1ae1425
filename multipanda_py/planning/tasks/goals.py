# SPDX-License-Identifier: Apache-2.0
"""Which bodies keep apart in a subtask, and how far."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from multipanda_py.planning.optimiser.clearances import clearances
from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.free_space import LEAST, SPARED
from multipanda_py.planning.optimiser.kinematics import Kinematics, Slices
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solids import Parts, solids_of
from multipanda_py.planning.tasks.sections import Subtask
from multipanda_py.planning.tasks.world_state import TOOL, ContactPoint, Seen
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription, SceneObject
from multipanda_py.state import Matrix, Vector


@dataclass(frozen=True, eq=False)
class GoalPlace:
    """Where a frame is to be in another one; None for what nobody asks for.

    Attributes:
        frame: ``ARM/tool`` or a thing.
        base: The frame that the numbers are in.
        position: (3,) [m].
        rotation: (3, 3).
        direction: Of its z axis, (3,), unit.
    """

    frame: str
    base: str
    position: Vector | None = None
    rotation: Matrix | None = None
    direction: Vector | None = None

    def errors(self, seen: Seen) -> tuple[float, float]:
        """Return how far it is from there [m], [rad]."""
        here = seen.pose(self.base).inverse() @ seen.pose(self.frame)
        distance = angle = 0.0
        if self.position is not None:
            distance = float(np.linalg.norm(here.position - self.position))
        if self.rotation is not None:
            _, angle = Pose(here.position, self.rotation).distance(here)
        if self.direction is not None:
            cosine = float(here.rotation[:, 2] @ self.direction)
            angle = max(angle, math.acos(max(-1.0, min(1.0, cosine))))
        return distance, angle

    def in_world(self, seen: Seen) -> Pose:
        """Return the pose in the world; what nobody asks for stays as it is."""
        base = seen.pose(self.base)
        here = base.inverse() @ seen.pose(self.frame)
        position = here.position if self.position is None else self.position
        rotation = here.rotation if self.rotation is None else self.rotation
        return base @ Pose(position, rotation)


def wanted(subtask: Subtask, points: Sequence[ContactPoint], seen: Seen) -> list[GoalPlace]:
    """Return the goals of a subtask, those in front of its contacts included.

    Args:
        subtask: Of a checked task.
        points: Of its contacts.
        seen: Where things are when it begins.
    """
    found = list(_given(subtask, seen))
    if subtask.force == 0.0:
        found += [
            GoalPlace(
                point.arm + TOOL,
                point.thing,
                point.point - subtask.distance * point.inward,
                direction=point.inward,
            )
            for point in points
        ]
    return found


def _given(subtask: Subtask, seen: Seen) -> Iterator[GoalPlace]:
    for goal in subtask.goals:
        position, direction = None, None
        if goal.position is not None:
            position = np.array(goal.position)
        elif goal.by is not None:
            here = seen.pose(goal.base).inverse() @ seen.pose(goal.frame)
            position = here.position + goal.by
        if goal.points is not None:
            direction = np.array(goal.points) / np.linalg.norm(goal.points)
        rotation = None
        if goal.rpy is not None:
            rotation = Pose.from_rpy(np.zeros(3), goal.rpy).rotation
        elif direction is None and not goal.frame.endswith(TOOL):  # a full box is not to lean
            rotation = (seen.pose(goal.base).inverse() @ seen.pose(goal.frame)).rotation
        yield GoalPlace(goal.frame, goal.base, position, rotation, direction)


SPEED, TURN_SPEED = 0.07, 0.35
"""Of what is led, at most [m/s], [rad/s]: slower than the law lets its pose go by default."""


@dataclass(frozen=True, eq=False)
class Lead:
    """The straight way of a thing or a tool, and the tool that goes with it.

    Attributes:
        begin: Of what moves, in the world.
        end: Likewise.
        tool: Of the tool, in what moves.
    """

    begin: Pose
    end: Pose
    tool: Pose

    @property
    def time(self) -> float:
        """How long the way takes [s]."""
        distance, angle = self.begin.distance(self.end)
        return max(distance / SPEED, angle / TURN_SPEED)

    def at(self, share: float) -> Pose:
        """Return the pose of the tool in the world after a share of the way, 0 to 1."""
        return self.begin.between(self.end, share) @ self.tool


FLOOR = SceneObject("floor", "box", (5.0, 5.0, 0.5), np.array([0.0, 0.0, -0.5]))
"""At height 0, below everything."""


def as_things(arm: ArmDescription, posture: Vector) -> list[SceneObject]:
    """Return the capsules of an arm that does not take part, where they are in a posture.

    Args:
        arm: With its base in the world.
        posture: Its joint positions, (n,) [rad, m].

    Returns:
        Fixed capsules and balls in the world.
    """
    scene = Scene([arm], (), {arm.name: posture})
    solids = solids_of(scene, arm.name)
    placed = Kinematics(scene, [solid.frame for solid in solids]).place(scene.start[None]).frames
    found = []
    for number, solid in enumerate(solids):
        frame = placed[solid.frame]
        turn, at = frame.rotation[0], frame.position[0]
        axis = turn @ (solid.end - solid.start)
        length = float(np.linalg.norm(axis))
        centre = at + turn @ (0.5 * (solid.start + solid.end))
        name = f"{arm.name} {number}"
        if length < 1e-9:
            found.append(SceneObject(name, "sphere", (solid.radius,), centre))
            continue
        z = axis / length
        x = np.cross(z, np.eye(3)[np.abs(z).argmin()])
        x /= np.linalg.norm(x)
        rotation = np.stack([x, np.cross(z, x), z], 1)
        size = (solid.radius, 0.5 * length)
        found.append(SceneObject(name, "capsule", size, centre, rotation))
    return found


PARTS = 4
"""Of the way from one slice to the next, in which a path without distances is looked at."""
SPARE = 2e-3
"""What bodies that begin or are to end within each other may be deeper on their way [m]."""
AROUND = 0.05
"""How deep what a hand touches may be in the capsules around it and its fingers [m]."""

PARTS_OF_ARMS: tuple[Parts, ...] = ("arm", "hand")


@dataclass(frozen=True)
class Encounters:
    """What of a subtask brings bodies together.

    Attributes:
        touched: Arms and the things that their hands are to touch.
        placed: Where things that are carried are to be at the end, in the world.
        touching: Things that all hands may touch, and what they carry may rest on.
    """

    touched: Collection[tuple[str, str]]
    placed: Mapping[str, Pose]
    touching: Collection[str] = ()


def apart(scene: Scene, wanted: Encounters, clearance: float) -> list[Distance]:
    """Return the distances that a subtask keeps.

    Bodies that begin nearer to each other than the clearance, and carried things that are to end
    nearer to something, keep half of that distance. The links of an arm whose hand touches a
    thing are only not to be in it.

    Args:
        scene: Movable are the things that are carried, and no others.
        wanted: What comes together.
        clearance: Of all else [m].

    Thread: any.
    """
    found = [one for one in _pairs(scene, wanted, clearance) if one.pairs]
    ends = np.stack([scene.start, scene.configuration({}, wanted.placed)])
    frames = dict.fromkeys(name for one in found for name in one.frames)
    there = Kinematics(scene, frames).place(ends)
    return [kept for one in found for kept in _allowed(scene, one, there)]


def is_clear(distances: Collection[Distance], scene: Scene, path: Matrix) -> bool:
    """Return whether a path keeps its distances, as they are kept between slices, all the way."""
    frames = dict.fromkeys(name for one in distances for name in one.frames)
    if not frames:
        return True
    whole = np.concatenate([scene.start[None], path])
    share = np.arange(1, PARTS + 1)[:, None] / PARTS
    dense = (whole[:-1, None] + share * np.diff(whole, axis=0)[:, None]).reshape(-1, scene.size)
    placed = Kinematics(scene, frames).place(dense)
    return all(
        float(one.evaluate(placed)[0].max()) <= max(SPARED * one.margin, 0.0) + LEAST
        for one in distances
    )


def _pairs(scene: Scene, wanted: Encounters, clearance: float) -> Iterator[Distance]:
    for one in clearances(scene, (), clearance):
        arm, thing = one.of  # the arm comes first
        if (arm, thing) in wanted.touched or thing in wanted.touching:
            yield Distance(scene, arm, thing, 0.0, parts="arm")
            yield Distance(scene, arm, thing, -AROUND, parts="hand")
        else:
            yield one
    others = [thing for thing in scene.things if thing not in scene.movable]
    for thing, other in product(scene.movable, others):
        yield Distance(scene, thing, other, -AROUND if other in wanted.touching else clearance)


def _allowed(scene: Scene, one: Distance, there: Slices) -> Iterator[Distance]:
    """Yield a distance so that it holds at the start, and where carried things end."""
    # Where arms will be is not known yet; of things that is what the goals say.
    is_of_things = all(name in scene.things for name in one.of)
    values, _ = one.evaluate(there if is_of_things else there.part(slice(0, 1)))
    nearest = one.margin - float(values.max(initial=-np.inf))
    if nearest >= one.margin:
        yield one
    elif one.parts == "all" and one.of[0] in scene.arms and one.of[1] in scene.things:
        for part in PARTS_OF_ARMS:  # a hand that is near leaves the links their clearance
            yield from _allowed(scene, Distance(scene, *one.of, one.margin, part), there)
    else:
        least = 0.5 * nearest if nearest > 0.0 else nearest - SPARE
        yield Distance(scene, *one.of, least, one.parts)
