# SPDX-License-Identifier: Apache-2.0
"""What no search could find, told before one begins: out of reach, beyond limits, too near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import coal
import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.grips import Grip
from multipanda_py.moves.known_places import frames_at
from multipanda_py.moves.move_request import MoveRequest
from multipanda_py.optimiser.distance import Distance, place_of, shape_of
from multipanda_py.optimiser.free_space import SLACK
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solids import PathSolid
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

TINY = 1e-4
"""What a posture may be beyond limits by, as rounding has it [rad, m]."""


def refuse_impossible(
    scene: Scene,
    request: MoveRequest,
    grips: Sequence[Grip],
    distances: Sequence[Distance],
    margin: float,
) -> None:
    """Refuse places at which an arm cannot be, whatever its other joints and other arms do.

    A posture says where all of an arm is, the pose of a tool where its hand is and what it holds.

    Args:
        scene: Arms and things.
        request: Of the motion.
        grips: What hands hold.
        distances: What is to be kept.
        margin: From joint limits [rad, m].

    Raises:
        PlanRejected: With the place, what was got, and what is allowed.
    """
    for number, places in enumerate(request.stops, 1):
        where, known = request.name_of(number), {}
        for arm, place in places.items():
            scene.known("arm", arm, [*scene.arms])
            if isinstance(place, Pose):
                _refuse_far(scene, arm, place, where)
            else:
                _refuse_limits(scene, arm, place, margin, where)
            known[arm] = frames_at(scene, arm, place)
        _refuse_near(scene, known, grips, distances, request.clearance, where)


def _refuse_far(scene: Scene, arm: str, pose: Pose, where: str) -> None:
    """Refuse what is farther away than an arm that is stretched out is long."""
    model, limits = scene.model(arm), scene.arms[arm].limits
    tool = model.frames[model.getFrameId(scene.arms[arm].ee_frame)]
    reach = float(np.linalg.norm(tool.placement.translation))
    joint = tool.parentJoint
    while model.parents[joint]:
        reach += float(np.linalg.norm(model.jointPlacements[joint].translation))
        joint = model.parents[joint]
    if limits.slides.any():
        most = np.maximum(np.abs(limits.lower), np.abs(limits.upper))
        reach += float(most[limits.slides].sum())
    shoulder = model.jointPlacements[joint].translation
    distance = float(np.linalg.norm(pose.position - shoulder))
    if distance > reach:
        raise PlanRejected(
            f"{where} of {arm}: got a pose {distance:.3g} m from its first joint, out of reach; "
            f"allowed up to {reach:.2f} m"
        )


def _refuse_limits(scene: Scene, arm: str, posture: Vector, margin: float, where: str) -> None:
    at, limits = scene.columns[arm], scene.arms[arm].limits
    lower, upper = scene.lower[at] + margin, scene.upper[at] - margin
    outside = np.flatnonzero((posture < lower - TINY) | (posture > upper + TINY))
    if outside.size:
        joint = int(outside[0])
        raise PlanRejected(
            f"{where} of {arm}: joint {joint + 1}: got {posture[joint]:.4f} {limits.unit(joint)}, "
            f"allowed [{lower[joint]:.4f}, {upper[joint]:.4f}], {margin:g} within its limits"
        )


def _refuse_near(
    scene: Scene,
    known: Mapping[str, Mapping[str, pin.SE3]],
    grips: Sequence[Grip],
    distances: Sequence[Distance],
    clearance: float,
    where: str,
) -> None:
    """Refuse places in which bodies that are known to be there are too near to each other."""

    def place(solid: PathSolid) -> pin.SE3 | None:
        name = solid.frame
        for one in grips:
            if one.thing == name and one.arm in known:
                return known[one.arm]["tool"] * pin.SE3(one.pose.rotation, one.pose.position)
        arm, _, link = name.partition("/")
        if arm in scene.arms and link:
            return known[arm].get(link) if arm in known else None
        thing = scene.things[name]
        is_elsewhere = name in scene.columns or name in scene.frames
        return None if is_elsewhere else pin.SE3(thing.rotation, thing.position)

    placed: dict[int, _Placed | None] = {}
    held = {one.thing for one in grips}
    for one in distances:
        if one.margin < 0.0 or not any(body in known or body in held for body in one.of):
            continue  # how deep things are in each other is not measured alike everywhere
        for pair in one.pairs:
            for solid in pair:
                if id(solid) not in placed:
                    frame = place(solid)
                    placed[id(solid)] = None if frame is None else _placed(solid, frame)
            a, b = (placed[id(solid)] for solid in pair)
            if a is None or b is None:
                continue
            distance = _distance(a, b, one.margin)
            if distance < one.margin - SLACK:
                first, second = one.of
                why = ""
                if one.margin > clearance:
                    why = ", because collision_avoidance of the executing controllet acts nearer"
                names = f"parts of {first}" if first == second else f"{first} and {second}"
                raise PlanRejected(
                    f"{where}: {names} would be {max(distance, 0.0):.3f} m from each other, "
                    f"allowed {one.margin:.3g} m or more{why}"
                )


class _Placed(NamedTuple):
    """A solid where it is: as coal has it, and a ball around it."""

    shape: Any
    pose: Any
    centre: Vector
    ball: float


def _placed(solid: PathSolid, frame: pin.SE3) -> _Placed:
    there = frame * pin.SE3(*place_of(solid))
    ball = solid.radius + 0.5 * float(np.linalg.norm(solid.end - solid.start))
    pose = coal.Transform3s(there.rotation, there.translation)
    return _Placed(shape_of(solid), pose, there.translation.copy(), ball)


def _distance(a: _Placed, b: _Placed, enough: float) -> float:
    """Return how far apart solids are, or something above ``enough``; 0 or less in each other."""
    least = float(np.linalg.norm(a.centre - b.centre)) - a.ball - b.ball
    if least > enough:
        return least
    distance: float = coal.distance(
        a.shape, a.pose, b.shape, b.pose, coal.DistanceRequest(), coal.DistanceResult()
    )
    return distance
