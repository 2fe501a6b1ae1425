# SPDX-License-Identifier: Apache-2.0
"""Collision solids of arms and objects, and the pairs whose distance is measured."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, Literal, TypeAlias

import coal
import numpy as np

from multipanda_py.planning.optimiser.scene import WORLD_FRAME, Scene
from multipanda_py.pose import Pose
from multipanda_py.robots.collision_pairs import is_gripper, is_static_capsule
from multipanda_py.state import Vector

Parts: TypeAlias = Literal["all", "arm", "hand"]
ARM_PARTS: tuple[Parts, ...] = ("arm", "hand")
"""Parts of an arm whose distances to a touched object have separate bounds."""
MAX_TOUCH_OVERLAP = 0.05
"""Maximum overlap of a touched object with the capsules around gripper and fingers [m]."""
MIN_JOINTS_BETWEEN = 3
"""Minimum number of joints between two links of one arm whose distance is measured. Links with
fewer joints between them are always near each other."""


@dataclass(frozen=True, eq=False)
class PathSolid:
    """Collision solid of an arm or object: capsule, sphere, box or cylinder.

    Attributes:
        body: Name of the arm or object.
        frame: Name of the frame to which the solid is fixed.
        start: First end of the capsule axis, or centre of another shape, in the frame, (3,) [m].
        end: Second end of the capsule axis, or centre of another shape, in the frame, (3,) [m].
        radius: Radius of the capsule, or of the bounding sphere of another shape [m].
        joint: Number of the joint that moves the solid; -1 for objects.
        stays: True for a link that does not move, or only rotates about its own axis.
        is_hand: True for a gripper or tool.
        shape: Box or cylinder of the library coal; None for a capsule or sphere.
    """

    body: str
    frame: str
    start: Vector
    end: Vector
    radius: float
    joint: int = -1
    shape: Any = None
    stays: bool = False
    is_hand: bool = False


def solids_of(scene: Scene, body: str) -> list[PathSolid]:
    """Return the collision solids of an arm or an object, by its name."""
    if body in scene.objects:
        return [_object_solids(scene, body)]
    arm = scene.arms[body]
    model, solids = scene.model(body), []
    for link, capsules in arm.capsules.items():
        name = f"{body}/{link.removeprefix(arm.prefix)}"
        frame = model.frames[model.getFrameId(link)]
        joint = int(frame.parentJoint)
        placed = _in_tool(scene, body, link) if name == f"{body}/tool" else Pose.identity()
        solids += [
            PathSolid(
                body,
                name,
                placed.rotation @ capsule.start + placed.position,
                placed.rotation @ capsule.end + placed.position,
                capsule.radius,
                joint,
                stays=is_static_capsule(arm, joint, frame.placement, capsule.start, capsule.end),
                is_hand=is_gripper(arm, link, joint),
            )
            for capsule in capsules
        ]
    return solids


def _in_tool(scene: Scene, arm: str, link: str) -> Pose:
    model = scene.model(arm)
    tip, own = (
        model.frames[model.getFrameId(frame)].placement
        for frame in (scene.arms[arm].ee_frame, link)
    )
    placed = tip.actInv(own)
    return Pose(placed.translation.copy(), placed.rotation.copy())


def _object_solids(scene: Scene, name: str) -> PathSolid:
    obj = scene.objects[name]
    size, nothing = obj.size, np.zeros(3)
    if obj.shape == "box":
        shape = coal.Box(*(2.0 * half for half in size))
        return PathSolid(name, name, nothing, nothing, float(np.linalg.norm(size)), shape=shape)
    if obj.shape == "cylinder":
        shape = coal.Cylinder(size[0], 2.0 * size[1])
        return PathSolid(
            name, name, nothing, nothing, float(np.hypot(size[0], size[1])), shape=shape
        )
    half = np.array([0.0, 0.0, size[1] if obj.shape == "capsule" else 0.0])
    return PathSolid(name, name, -half, half, size[0])


def pairs_between(
    scene: Scene, first: str, second: str, parts: Parts = "all"
) -> list[tuple[PathSolid, PathSolid]]:
    """Return the pairs of solids to measure between two bodies, or within one arm.

    The feature ``collision_avoidance`` measures the same pairs. It ignores neighbouring links, a
    held object and the last links of its arm, base links of two arms with a common base, and pairs
    in which no solid moves.

    Args:
        scene: Scene with both bodies.
        first: Name of an arm or object.
        second: Name of another arm or object, or of the same arm.
        parts: Selection of pairs: ``hand`` for pairs with a gripper or tool, ``arm`` for the
            others, ``all`` for both.
    """
    if first == second:
        pairs = [
            (a, b)
            for a, b in combinations(solids_of(scene, first), 2)
            if abs(a.joint - b.joint) >= MIN_JOINTS_BETWEEN
        ]
    else:
        pairs = [*product(solids_of(scene, first), solids_of(scene, second))]
    if parts != "all":
        is_meant = parts == "hand"
        pairs = [pair for pair in pairs if (pair[0].is_hand or pair[1].is_hand) == is_meant]
    if first in scene.arms and second in scene.frames and scene.body(second) == first:
        last = scene.arms[first].n_joints
        pairs = [(a, b) for a, b in pairs if last - a.joint >= MIN_JOINTS_BETWEEN]
    arms = scene.arms
    if first != second and {first, second} <= {*arms} and arms[first].shares_base(arms[second]):
        pairs = [(a, b) for a, b in pairs if a.joint and b.joint]
    moves = {
        body: body in scene.columns or body in scene.frames
        for body in (first, second, WORLD_FRAME)
    }
    return [
        (a, b)
        for a, b in pairs
        if (moves[a.body] and not a.stays) or (moves[b.body] and not b.stays)
    ]
