# SPDX-License-Identifier: Apache-2.0
"""Find how arms go to places without touching each other or anything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.avoidance import Avoidance
from multipanda_py.moves.certain_refusals import refuse_impossible
from multipanda_py.moves.grips import grips_of, in_one_hand
from multipanda_py.moves.keeping import add_keeping
from multipanda_py.moves.kept_apart import kept_apart
from multipanda_py.moves.motion_check import check_motion
from multipanda_py.moves.move_request import MoveRequest
from multipanda_py.moves.timing import timed
from multipanda_py.moves.way_out import POINTS, WayOut, way_out
from multipanda_py.optimiser import (
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
from multipanda_py.optimiser.clock import processor_time
from multipanda_py.optimiser.free_space import free_space
from multipanda_py.optimiser.scene import Scene
from multipanda_py.planning.trajectory import thin
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector
from multipanda_py.targets import TRAJECTORY_POINTS

SLICES = 16
"""Of a way from one place to the next."""
LIMIT_MARGIN = 0.02
"""From the joints' position limits [rad]: an arm that gives way is not at them at once."""
TRIES, FINER = 8, 2
"""Most searches, and how often points are made twice as dense, for a motion that is clear between
them, too."""
FAR = 0.02
"""What is missed by more is out of reach; other searches would find the same [m, rad]."""
MOST_POINTS = TRAJECTORY_POINTS - POINTS
"""Maximum number of points of a motion after a retreat: both are one trajectory."""


@dataclass(frozen=True, eq=False)
class FoundMove:
    """Points of all arms, and how near bodies come to each other on the way [m]."""

    points: dict[str, Matrix]
    nearest: float
    reason: str


def find_move(
    scene: Scene, held: Mapping[str, str], request: MoveRequest, law: Avoidance | None = None
) -> FoundMove:
    """Find a motion from where the scene starts.

    Arms that start too near to something for the collision avoidance first retreat from it.

    Args:
        scene: All arms and things of a cell as they are; movable are things in hands, and no
            others.
        held: By arm the thing in its hand.
        request: What is asked.
        law: Collision avoidance of the controllets that will execute the motion.

    Raises:
        PlanRejected: If bodies are within each other at the start, a place cannot be reached, or
            no way there was found; says which.
        UnknownName: If there is no such arm.
        MissingExtra: If scipy is not installed.

    Thread: any; up to the request's patience, of its processor time.
    """
    request.check()
    for thing in request.touching:
        scene.known("thing", thing, [*scene.things])
    grips = grips_of(scene, held)
    scene = scene.carrying(in_one_hand(grips))
    out = None
    if law is not None:
        timing = partial(_timed, speed=request.speed)
        out = way_out(scene, held, request, law, LIMIT_MARGIN, timing)
    if out is not None:
        scene = scene.starting_at(out.end)
    apart = kept_apart(scene, held, request, law)
    refuse_impossible(scene, request, grips, apart, LIMIT_MARGIN)
    problem = Problem(scene, len(request.stops), SLICES, 2.0)
    problem.add(Smoothness(), "cost", scale=0.3).add(WithinLimits(margin=LIMIT_MARGIN))
    problem.add(Rest(*scene.arms), at=len(request.stops))
    for number, places in enumerate(request.stops, 1):
        for arm, place in places.items():
            problem.add(_goal(arm, place), at=number)
    add_keeping(problem, scene, request)
    for grip in grips:
        if grip.thing in scene.movable:
            problem.add(PoseGoal(grip.thing, grip.pose, f"{grip.arm}/tool"))
    for distance in apart:
        problem.add(distance)
    return _search(scene, problem, request, law, out)


def _search(
    scene: Scene, problem: Problem, request: MoveRequest, law: Avoidance | None, out: WayOut | None
) -> FoundMove:
    """Search until a motion keeps its distances between its points, too.

    Raises:
        PlanRejected: If none does, with what is missing; or if there was no time for more.
    """
    until, whole = processor_time() + request.patience, problem
    space = free_space(scene, problem.terms)
    n = sum(arm.n_joints for arm in scene.arms.values())
    why, finer = "", 0
    for number in range(TRIES):
        settings = SolverSettings(time=max(until - processor_time(), 0.0))
        found = find_path(problem, seed=int(request.seed) + number, settings=settings)
        too_near = ""
        if found.is_feasible:
            path = np.concatenate([scene.start[None], found.path])
            rows = thin(_timed(scene, path, request.speed), MOST_POINTS, len(request.stops))[0]
            checked = check_motion(rows, n, space, law, MOST_POINTS)
            too_near = checked.reason and f"on the way {checked.reason}"
            if not too_near:
                rows, nearest = checked.rows, checked.nearest
                if out is not None:
                    rows, nearest = out.followed_by(rows), min(nearest, out.nearest)
                points = {arm: _rows_of(scene, rows, arm) for arm in scene.arms}
                return FoundMove(points, nearest, found.reason)
            finer = (finer + 1) % (FINER + 1)
            problem = problem.finer() if finer else whole
        why = why or too_near or _missed(found, request)
        if processor_time() > until or found.ended == "time":
            raise PlanRejected(
                f"no motion found within {request.patience:g} s of processor time (patience), and "
                f"there may be one: {why}"
            )
        if not found.is_feasible and found.worst > FAR:
            break
    raise PlanRejected(f"no motion found: {why}")


def _missed(found: Solution, request: MoveRequest) -> str:
    """Say what is missing in the nearest path, and where on it."""
    each = len(found.path) // len(request.stops)
    words = []
    for one in found.violations[:3]:
        name = request.name_of(one.phase + 1)
        where = "at" if one.slice % each == each - 1 else "on the way to"
        words.append(f"{where} {name} {one.missed}")
    return "the nearest one: " + "; ".join(words)


def _goal(arm: str, place: Pose | Vector) -> Objective:
    if isinstance(place, Pose):
        return PoseGoal(f"{arm}/tool", place)
    return Near(arm, np.asarray(place, dtype=np.float64))


def _timed(scene: Scene, path: Matrix, speed: float) -> Matrix:
    """Return points of all numbers of slices, in the time that arms need."""
    velocity = np.where(np.isfinite(scene.velocity), scene.velocity * speed, np.inf)
    acceleration = np.where(np.isfinite(velocity), scene.acceleration * speed**2, np.inf)
    shares: Vector = np.linspace(0.0, 1.0, len(path))
    return timed(shares, path, velocity, acceleration)


def _rows_of(scene: Scene, rows: Matrix, arm: str) -> Matrix:
    """Return the points of one arm."""
    at, d = scene.columns[arm], scene.size
    parts = (rows[:, 1 + order * d : 1 + (order + 1) * d][:, at] for order in range(3))
    found: Matrix = np.column_stack([rows[:, 0], *parts])
    return found
