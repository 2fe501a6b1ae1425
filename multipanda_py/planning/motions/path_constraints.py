# SPDX-License-Identifier: Apache-2.0
"""Constraints along a motion: distances of bodies, grasps, and the orientation of tools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.motion_check import Avoidance
from multipanda_py.planning.motions.motion_request import MotionRequest, frames_at
from multipanda_py.planning.optimiser import Axis, Distance, Orientation, Problem, clearances
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solids import ARM_PARTS, MAX_TOUCH_OVERLAP
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector


class AttachedObject(NamedTuple):
    """Attachment of an object to a gripper.

    Attributes:
        arm: Name of the arm.
        object_name: Name of the object.
        pose: Pose of the object in the tool frame.
    """

    arm: str
    object_name: str
    pose: Pose


def attached_objects(scene: Scene, held: Mapping[str, str]) -> list[AttachedObject]:
    """Return the objects attached to grippers, with their poses in the tool frames.

    Args:
        scene: Arms and objects at the start.
        held: Names of the attached objects, by arm. Several arms may hold one object.
    """
    grips = []
    for arm, obj in held.items():
        tool = frames_at(scene, arm, scene.arm_configuration(scene.start, arm))["tool"]
        into = Pose(tool.translation.copy(), tool.rotation.copy()).inverse()
        grips.append(AttachedObject(arm, obj, into @ scene.pose(scene.start, obj)))
    return grips


def carried_by_one_gripper(grips: Sequence[AttachedObject]) -> dict[str, tuple[str, Pose]]:
    """Select the objects that exactly one gripper holds.

    Returns:
        Tool frame ``ARM/tool`` and pose of the object in this frame, by name of the object.
    """
    hands = Counter(grip.object_name for grip in grips)
    return {
        grip.object_name: (f"{grip.arm}/tool", grip.pose)
        for grip in grips
        if hands[grip.object_name] == 1
    }


MAX_REST_OVERLAP = 2e-3
"""Maximum overlap at the start of objects that rest on or in each other [m]."""


def required_distances(
    scene: Scene,
    held: Mapping[str, str],
    request: MotionRequest,
    avoidance: Avoidance | None = None,
    deepest: float = MAX_REST_OVERLAP,
) -> list[Distance]:
    """Return the minimum distances of pairs of bodies during a motion, as constraints.

    A pair that starts closer than its minimum distance must keep its initial distance minus 1 mm.

    Args:
        scene: Arms and objects at the start.
        held: Names of the attached objects, by arm.
        request: Request with the clearance and the allowed contacts.
        avoidance: Collision avoidance of the executing controllets, which may need larger
            distances, or None.
        deepest: Maximum overlap of bodies at the start [m].

    Raises:
        PlanRejected: If bodies overlap by more than ``deepest`` at the start.
    """
    matches = [one for one in _minimum_distances(scene, held, request, avoidance) if one.pairs]
    frames = dict.fromkeys(name for one in matches for name in one.frames)
    placed, constraints = Kinematics(scene, frames).forward_kinematics(scene.start[None]), []
    for one in matches:
        distance = one.margin - float(one.evaluate(placed)[0].max())
        if distance < min(-deepest, one.margin):
            raise PlanRejected(
                f"start: {' and '.join(dict.fromkeys(one.of))} overlap by {-distance:.3f} m, "
                "allowed no overlap. Move them apart first"
            )
        nearer = distance - 1e-3 < one.margin
        constraints.append(Distance(scene, *one.of, distance - 1e-3, one.parts) if nearer else one)
    return constraints


def _minimum_distances(
    scene: Scene, held: Mapping[str, str], request: MotionRequest, avoidance: Avoidance | None
) -> Iterator[Distance]:
    clearance = request.clearance
    led = {arm for goals in request.waypoints for arm in goals}
    for one in clearances(scene, (), clearance):
        arm, other = one.of  # The arm is the first body of a distance.
        if held.get(arm) == other and other in scene.movable:
            # Two grippers hold the object. Its grasp constraints fix its distance to both.
            continue
        for part in ARM_PARTS:
            need, meant = clearance, False
            if avoidance is not None:
                need = max(clearance, avoidance.min_distance(arm, other, part == "hand"))
                meant = avoidance.may_touch(arm, other) or (
                    part == "hand" and avoidance.may_touch(f"{arm}/gripper", other)
                )
            if meant or (part == "hand" and arm in led and other in request.allowed_contacts):
                need = -MAX_TOUCH_OVERLAP  # These bodies may touch.
            yield Distance(scene, arm, other, need, parts=part)
    others = [scene_object for scene_object in scene.objects if scene_object not in held.values()]
    for obj, other in product(dict.fromkeys(held.values()), others):
        need = (
            clearance
            if avoidance is None
            else max(clearance, avoidance.min_distance(obj, other, True))
        )
        yield Distance(
            scene, obj, other, -MAX_REST_OVERLAP if other in request.allowed_contacts else need
        )


MAX_ORIENTATION_ERROR = 0.02
"""Maximum orientation error between a goal and the start, if the tool keeps its orientation [rad].

It tolerates the position error of compliant arms. The motion keeps the orientation of the goal."""
UP = np.array([0.0, 0.0, 1.0])


def add_path_constraints(problem: Problem, scene: Scene, request: MotionRequest) -> None:
    """Add the constraint ``request.path_constraint`` for the tools of all arms with a goal.

    Raises:
        PlanRejected: If the tool orientation at a goal violates the constraint.
    """
    if not request.path_constraint:
        return
    led = dict.fromkeys(arm for positions in request.waypoints for arm in positions)
    for arm in led:
        start = turned = _tool_rotation(scene, arm, scene.arm_configuration(scene.start, arm))
        for number, goals in enumerate(request.waypoints, 1):
            if arm in goals:
                turned = _tool_rotation(scene, arm, goals[arm])
                _refuse_turned(
                    start,
                    turned,
                    request.path_constraint,
                    f"{request.waypoint_name(number)} of {arm}",
                )
            phases = (number - 1, number)
            if request.path_constraint == "orientation":
                one: Axis | Orientation = Orientation(f"{arm}/tool", Pose(np.zeros(3), turned))
            else:
                one = Axis(f"{arm}/tool", turned.T @ UP, UP)
            problem.add(one, phases=phases)


def _tool_rotation(scene: Scene, arm: str, goal: Pose | Vector) -> Matrix:
    rotation: Matrix = frames_at(scene, arm, goal)["tool"].rotation
    return rotation


def _refuse_turned(start: Matrix, turned: Matrix, keep: str, path: str) -> None:
    if keep == "orientation":
        off, words = float(np.linalg.norm(pin.log3(start.T @ turned))), "is rotated"
    else:
        x, y, z = turned @ start.T @ UP  # Goal direction of the axis that starts upright.
        off, words = math.atan2(math.hypot(x, y), z), "leans"
    if off > MAX_ORIENTATION_ERROR:
        raise PlanRejected(
            f"{path}: its tool {words} by {off:.3f} rad relative to the start, allowed "
            f"{MAX_ORIENTATION_ERROR:g} "
            f"rad with path_constraint={keep!r}"
        )
