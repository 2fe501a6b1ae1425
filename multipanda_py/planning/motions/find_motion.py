# SPDX-License-Identifier: Apache-2.0
"""Search for collision-free motions of several arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import coal
import numpy as np
import pinocchio as pin

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.motions.motion_check import Avoidance, check_motion, timed
from multipanda_py.planning.motions.motion_request import MotionRequest, frames_at
from multipanda_py.planning.motions.path_constraints import (
    AttachedObject,
    add_path_constraints,
    attached_objects,
    carried_by_one_gripper,
    required_distances,
)
from multipanda_py.planning.motions.retreat import RETREAT_POINTS, TimedRetreat, timed_retreat
from multipanda_py.planning.optimiser import (
    Near,
    Objective,
    PoseGoal,
    Problem,
    Rest,
    Smoothness,
    Solution,
    SolverSettings,
    WithinLimits,
    find_path,
)
from multipanda_py.planning.optimiser.distance import Distance, frame_of, shape_of
from multipanda_py.planning.optimiser.free_space import DISTANCE_TOLERANCE, free_space
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solids import PathSolid
from multipanda_py.planning.optimiser.solver import processor_time
from multipanda_py.planning.trajectory.trajectory import thin
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS

LIMIT_TOLERANCE = 1e-4
"""Tolerance of joint limits for rounding errors [rad, m]."""


def check_feasible(
    scene: Scene,
    request: MotionRequest,
    grips: Sequence[AttachedObject],
    distances: Sequence[Distance],
    margin: float,
) -> None:
    """Refuse goals that exceed joint limits, are out of reach, or bring bodies too close.

    At a tool pose, only distances of the gripper and the attached object are checked.

    Args:
        scene: Arms and objects at the start of the motion.
        request: Request with the goals.
        grips: Objects attached to grippers.
        distances: Distances that bodies must keep.
        margin: Distance of the goals from the joint limits [rad, m].

    Raises:
        PlanRejected: If a goal is impossible. The message contains the goal, its value and the
            allowed range.
    """
    for number, goals in enumerate(request.waypoints, 1):
        goal_name, goal_frames = request.waypoint_name(number), {}
        for arm, goal in goals.items():
            scene.known("arm", arm, [*scene.arms])
            if isinstance(goal, Pose):
                _refuse_out_of_reach(scene, arm, goal, goal_name)
            else:
                _refuse_limits(scene, arm, goal, margin, goal_name)
            goal_frames[arm] = frames_at(scene, arm, goal)
        _refuse_goal_near_bodies(
            scene, goal_frames, grips, distances, request.clearance, goal_name
        )


def _refuse_out_of_reach(scene: Scene, arm: str, pose: Pose, goal_name: str) -> None:
    model, limits = scene.model(arm), scene.arms[arm].limits
    tool = model.frames[model.getFrameId(scene.arms[arm].ee_frame)]
    # Distance from the first joint to the tool if the arm is stretched.
    reach = float(np.linalg.norm(tool.placement.translation))
    joint = tool.parentJoint
    while model.parents[joint]:
        reach += float(np.linalg.norm(model.jointPlacements[joint].translation))
        joint = model.parents[joint]
    if limits.slides.any():
        max_value = np.maximum(np.abs(limits.lower), np.abs(limits.upper))
        reach += float(max_value[limits.slides].sum())
    shoulder = model.jointPlacements[joint].translation
    distance = float(np.linalg.norm(pose.position - shoulder))
    if distance > reach:
        raise PlanRejected(
            f"{goal_name} of {arm}: the pose is {distance:.3g} m from the first joint, "
            f"out of reach, allowed up to {reach:.2f} m"
        )


def _refuse_limits(
    scene: Scene, arm: str, configuration: Vector, margin: float, goal_name: str
) -> None:
    at, limits = scene.columns[arm], scene.arms[arm].limits
    lower, upper = scene.lower[at] + margin, scene.upper[at] - margin
    outside = np.flatnonzero(
        (configuration < lower - LIMIT_TOLERANCE) | (configuration > upper + LIMIT_TOLERANCE)
    )
    if outside.size:
        joint = int(outside[0])
        raise PlanRejected(
            f"{goal_name} of {arm}: joint {joint + 1}: got {configuration[joint]:.4f} "
            f"{limits.unit(joint)}, allowed [{lower[joint]:.4f}, {upper[joint]:.4f}], the joint "
            f"limits with a margin of {margin:g}"
        )


def _refuse_goal_near_bodies(
    scene: Scene,
    goal_frames: Mapping[str, Mapping[str, pin.SE3]],
    attached: Sequence[AttachedObject],
    required_distances: Sequence[Distance],
    clearance: float,
    goal_name: str,
) -> None:
    def placement_of(solid: PathSolid) -> pin.SE3 | None:
        name = solid.frame
        for one in attached:
            if one.object_name == name and one.arm in goal_frames:
                return goal_frames[one.arm]["tool"] * pin.SE3(one.pose.rotation, one.pose.position)
        arm, _, link = name.partition("/")
        if arm in scene.arms and link:
            return goal_frames[arm].get(link) if arm in goal_frames else None
        obj = scene.objects[name]
        is_attached = name in scene.columns or name in scene.frames
        return None if is_attached else pin.SE3(obj.rotation, obj.position)

    placed: dict[int, _PlacedShape | None] = {}
    held = {one.object_name for one in attached}
    for one in required_distances:
        # A negative margin allows an overlap, whose depth the search checks. coal, which is used
        # here, measures depths differently.
        if one.margin < 0.0 or not any(body in goal_frames or body in held for body in one.of):
            continue
        for pair in one.pairs:
            for solid in pair:
                if id(solid) not in placed:
                    frame = placement_of(solid)
                    placed[id(solid)] = None if frame is None else _placed(solid, frame)
            a, b = (placed[id(solid)] for solid in pair)
            if a is None or b is None:  # The goals do not determine the pose of this solid.
                continue
            distance = _distance_or_lower_bound(a, b, one.margin)
            if distance < one.margin - DISTANCE_TOLERANCE:
                first, second = one.of
                reason = ""
                if one.margin > clearance:
                    reason = (
                        ", because the collision_avoidance of the executing controllet needs this"
                    )
                names = f"parts of {first}" if first == second else f"{first} and {second}"
                raise PlanRejected(
                    f"{goal_name}: {names} would be {max(distance, 0.0):.3f} m from each other, "
                    f"allowed {one.margin:.3g} m or more{reason}"
                )


class _PlacedShape(NamedTuple):
    """Shape of the library coal at its pose in the world, with its bounding sphere."""

    shape: Any
    pose: Any
    centre: Vector
    ball: float


def _placed(solid: PathSolid, frame: pin.SE3) -> _PlacedShape:
    there = frame * pin.SE3(*frame_of(solid))
    ball = solid.radius + 0.5 * float(np.linalg.norm(solid.end - solid.start))
    pose = coal.Transform3s(there.rotation, there.translation)
    return _PlacedShape(shape_of(solid), pose, there.translation.copy(), ball)


def _distance_or_lower_bound(a: _PlacedShape, b: _PlacedShape, sufficient: float) -> float:
    # Distance of the bounding spheres [m]. A distance of solids is <= 0 if they overlap.
    min_value = float(np.linalg.norm(a.centre - b.centre)) - a.ball - b.ball
    if min_value > sufficient:
        return min_value
    distance: float = coal.distance(
        a.shape, a.pose, b.shape, b.pose, coal.DistanceRequest(), coal.DistanceResult()
    )
    return distance


STEPS_PER_GOAL = 16
"""Number of time steps of a path from one goal to the next."""
LIMIT_MARGIN = 0.02
"""Margin of the joint position limits [rad], so that a compliant arm does not hit them."""
MAX_SEARCHES, MAX_REFINEMENTS = 8, 2
"""Maximum number of searches. Maximum number of times in a row that the number of time steps is
doubled because bodies are too close between them; the next search uses the first number again."""
UNREACHABLE_ERROR = 0.02
"""Violation of the best path above which no further searches are made [m, rad]."""
MAX_POINTS = TRAJECTORY_POINTS - RETREAT_POINTS
"""Maximum number of points of a motion; a retreat before it is part of the same trajectory."""


@dataclass(frozen=True, eq=False)
class PlannedMotion:
    """Motion found by the search.

    Attributes:
        points: Trajectory points by arm, (p, 1 + 3 n): time since the start [s], then positions,
            velocities and accelerations of n joints.
        nearest: Minimum distance of bodies along the motion [m].
        reason: Result of the search in one sentence.
    """

    points: dict[str, Matrix]
    nearest: float
    reason: str


def find_move(
    scene: Scene,
    held: Mapping[str, str],
    request: MotionRequest,
    avoidance: Avoidance | None = None,
) -> PlannedMotion:
    """Search for a motion of all arms from the joint positions in ``scene`` to the goals.

    If bodies are too close at the start for ``avoidance``, the arms with a goal first retreat.

    Args:
        scene: Arms and present objects of a cell. Only attached objects are movable.
        held: Names of the attached objects, by arm.
        request: Request with the goals.
        avoidance: Collision avoidance of the controllets that will execute the motion, or None.

    Raises:
        PlanRejected: If bodies overlap at the start, a goal cannot be reached, or no motion was
            found. The message contains the reason.
        UnknownName: If there is no such arm.
        MissingExtra: If scipy is not installed.

    Thread: any; it takes up to ``request.planning_time`` seconds of processor time.
    """
    request.check()
    for obj in request.allowed_contacts:
        scene.known("object", obj, [*scene.objects])
    grips = attached_objects(scene, held)
    scene = scene.carrying(carried_by_one_gripper(grips))
    retreat = None
    if avoidance is not None:
        timing = partial(_minimum_time_trajectory, velocity_scaling=request.velocity_scaling)
        retreat = timed_retreat(scene, held, request, avoidance, LIMIT_MARGIN, timing)
    if retreat is not None:
        scene = scene.starting_at(retreat.end)
    apart = required_distances(scene, held, request, avoidance)
    check_feasible(scene, request, grips, apart, LIMIT_MARGIN)
    problem = Problem(scene, len(request.waypoints), STEPS_PER_GOAL, 2.0)
    problem.add(Smoothness(), "cost", scale=0.3).add(WithinLimits(margin=LIMIT_MARGIN))
    problem.add(Rest(*scene.arms), at=len(request.waypoints))
    for number, goals in enumerate(request.waypoints, 1):
        for arm, goal in goals.items():
            problem.add(_goal(arm, goal), at=number)
    add_path_constraints(problem, scene, request)
    for grip in grips:
        if grip.object_name in scene.movable:
            problem.add(PoseGoal(grip.object_name, grip.pose, f"{grip.arm}/tool"))
    for distance in apart:
        problem.add(distance)
    return _search_motion(scene, problem, request, avoidance, retreat)


def _search_motion(
    scene: Scene,
    problem: Problem,
    request: MotionRequest,
    avoidance: Avoidance | None,
    retreat: TimedRetreat | None,
) -> PlannedMotion:
    until, whole = processor_time() + request.planning_time, problem
    space = free_space(scene, problem.terms)
    n = sum(arm.n_joints for arm in scene.arms.values())
    reason, finer = "", 0
    for number in range(MAX_SEARCHES):
        settings = SolverSettings(time=max(until - processor_time(), 0.0))
        result = find_path(problem, seed=int(request.seed) + number, settings=settings)
        too_near = ""
        if result.is_feasible:
            path = np.concatenate([scene.start[None], result.path])
            rows = thin(
                _minimum_time_trajectory(scene, path, request.velocity_scaling),
                MAX_POINTS,
                len(request.waypoints),
            )[0]
            checked = check_motion(rows, n, space, avoidance, MAX_POINTS)
            too_near = checked.reason and f"on the way {checked.reason}"
            if not too_near:
                rows, nearest = checked.rows, checked.nearest
                if retreat is not None:
                    rows, nearest = retreat.followed_by(rows), min(nearest, retreat.nearest)
                points = {arm: _rows_of(scene, rows, arm) for arm in scene.arms}
                return PlannedMotion(points, nearest, result.reason)
            finer = (finer + 1) % (MAX_REFINEMENTS + 1)
            problem = problem.finer() if finer else whole
        reason = reason or too_near or _missed(result, request)
        if processor_time() > until or result.ended == "time":
            raise PlanRejected(
                f"no motion found within {request.planning_time:g} s of processor time; a longer "
                f"planning_time may find one: {reason}"
            )
        if not result.is_feasible and result.worst > UNREACHABLE_ERROR:
            break
    raise PlanRejected(f"no motion found: {reason}")


def _missed(result: Solution, request: MotionRequest) -> str:
    each = len(result.path) // len(request.waypoints)
    words = []
    for one in result.violations[:3]:
        name = request.waypoint_name(one.phase + 1)
        path = "at" if one.step % each == each - 1 else "on the way to"
        words.append(f"{path} {name} {one.missed}")
    return "the best path: " + "; ".join(words)


def _goal(arm: str, goal: Pose | Vector) -> Objective:
    if isinstance(goal, Pose):
        return PoseGoal(f"{arm}/tool", goal)
    return Near(arm, np.asarray(goal, dtype=np.float64))


def _minimum_time_trajectory(scene: Scene, path: Matrix, velocity_scaling: float) -> Matrix:
    """Return trajectory points, (p, 1 + 3 d), along a path of variables, (p, d)."""
    velocity = np.where(np.isfinite(scene.velocity), scene.velocity * velocity_scaling, np.inf)
    acceleration = np.where(
        np.isfinite(velocity), scene.acceleration * velocity_scaling**2, np.inf
    )
    fractions: Vector = np.linspace(0.0, 1.0, len(path))
    return timed(fractions, path, velocity, acceleration)


def _rows_of(scene: Scene, rows: Matrix, arm: str) -> Matrix:
    at, d = scene.columns[arm], scene.size
    parts = (rows[:, 1 + order * d : 1 + (order + 1) * d][:, at] for order in range(3))
    result: Matrix = np.column_stack([rows[:, 0], *parts])
    return result
