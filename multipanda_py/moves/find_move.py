# SPDX-License-Identifier: Apache-2.0
"""Find how arms go to places without touching each other or anything else."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, TypeAlias

import numpy as np

from multipanda_py.exceptions import PlanRejected
from multipanda_py.moves.timing import timed
from multipanda_py.optimiser import (
    Axis,
    Distance,
    Near,
    Objective,
    Orientation,
    PoseGoal,
    Problem,
    Rest,
    Scene,
    Smoothness,
    SolverSettings,
    WithinLimits,
    clearances,
    find_path,
)
from multipanda_py.optimiser.free_space import FreeSpace, free_space
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.planning.quintic import evaluate
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

SLICES = 16
"""Of a way from one place to the next."""
LIMIT_MARGIN = 0.02
"""From the joints' position limits [rad]: an arm that gives way is not at them at once."""
DENSE = 0.01
"""Between postures at which a motion is checked before it is handed out [s]."""
TRIES, FINER = 8, 2
"""Most searches, and how often points are made twice as dense, for a motion that is clear between
them, too."""
FAR = 0.02
"""What is missed by more is out of reach; other searches would find the same [m, rad]."""
TOUCHING = 2e-3
"""How deep what rests on or in something may be in it at the start [m]."""
AROUND = 0.05
"""How deep what a hand touches may be in the capsules around it and its fingers [m]."""
SPARED = 0.5
"""Share of a clearance that may be used up between the points of a path."""
LEAST = 5e-4
"""What may be used up in any case [m]."""

Keep: TypeAlias = Literal["", "upright", "orientation"]
KEEPS: tuple[Keep, ...] = ("", "upright", "orientation")
"""What of a tool stays: nothing; what points up in it; how it is turned."""


@dataclass(frozen=True)
class MoveRequest:
    """What is asked of a motion.

    Attributes:
        stops: Places one after another, the goal last: by arm a pose of its tool in the world, or
            a posture, (n,). Arms that are not named may go out of the way.
        keep: See :data:`KEEPS`; of all arms that have a pose or posture to go to.
        clearance: Least distance of bodies [m]; less where they begin nearer. By default that
            from which on ``collision_avoidance`` pushes, so that nothing slows arms down.
        speed: Share of the limits of velocity; of those of acceleration its square.
        patience: Longest search [s].
        seed: Of it; the same one finds the same motion.
        touching: Things that hands of named arms may touch, as one that goes to grasp does, or
            has let go; and that what hands hold may rest on.
    """

    stops: Sequence[Mapping[str, Pose | Vector]]
    keep: Keep = ""
    clearance: float = 0.03
    speed: float = 0.3
    patience: float = 5.0
    seed: int = 0
    touching: Sequence[str] = ()

    def check(self) -> None:
        """Refuse what is none.

        Raises:
            PlanRejected: With the number, and what is allowed.
        """
        if not self.stops or not all(self.stops):
            raise PlanRejected("goals: got none, allowed a place for one arm or more")
        if self.keep not in KEEPS:
            allowed = ", ".join(repr(keep) for keep in KEEPS)
            raise PlanRejected(f"keep: got {self.keep!r:.40}, allowed {allowed}")
        if isinstance(self.touching, str):
            raise PlanRejected(f"touching: got {self.touching!r:.40}, allowed a list of names")
        for name, value, low, high in (
            ("clearance", self.clearance, 0.0, 0.5),
            ("speed", self.speed, 0.01, 1.0),
            ("patience", self.patience, 0.01, 600.0),
        ):
            if not low <= value <= high:
                raise PlanRejected(f"{name}: got {value!r:.40}, allowed {low:g} to {high:g}")


@dataclass(frozen=True, eq=False)
class FoundMove:
    """Points of all arms, and how near bodies come to each other on the way [m]."""

    points: dict[str, Matrix]
    nearest: float
    reason: str


def find_move(scene: Scene, held: Mapping[str, str], request: MoveRequest) -> FoundMove:
    """Find a motion from where the scene starts.

    Args:
        scene: All arms and things of a cell as they are; movable are things in hands, and no
            others.
        held: By arm the thing in its hand.
        request: What is asked.

    Raises:
        PlanRejected: If bodies are within each other at the start, a place cannot be reached, or
            no way there was found; says which.
        UnknownName: If there is no such arm.
        MissingExtra: If scipy is not installed.

    Thread: any; up to the request's patience.
    """
    request.check()
    for thing in request.touching:
        scene.known("thing", thing, [*scene.things])
    apart = _apart(scene, held, request)
    problem = Problem(scene, len(request.stops), SLICES, 2.0)
    problem.add(Smoothness(), "cost", scale=0.3).add(WithinLimits(margin=LIMIT_MARGIN))
    problem.add(Rest(*scene.arms), at=len(request.stops))
    start = Kinematics(scene, [f"{arm}/tool" for arm in scene.arms]).place(scene.start[None])
    for number, places in enumerate(request.stops, 1):
        for arm, place in places.items():
            scene.known("arm", arm, [*scene.arms])
            problem.add(_goal(arm, place), at=number)
    led = dict.fromkeys(arm for places in request.stops for arm in places)
    for arm in led:
        tool = start.frames[f"{arm}/tool"]
        if request.keep == "upright":
            up = np.array([0.0, 0.0, 1.0])
            problem.add(Axis(f"{arm}/tool", tool.rotation[0].T @ up, up))
        elif request.keep == "orientation":
            problem.add(Orientation(f"{arm}/tool", Pose(np.zeros(3), tool.rotation[0])))
    for arm, thing in held.items():
        tool = start.frames[f"{arm}/tool"]
        grip = Pose(tool.position[0], tool.rotation[0]).inverse()
        problem.add(PoseGoal(thing, grip @ scene.pose(scene.start, thing), f"{arm}/tool"))
    for distance in apart:
        problem.add(distance)
    return _search(scene, problem, request)


def _search(scene: Scene, problem: Problem, request: MoveRequest) -> FoundMove:
    """Search until a motion keeps its distances between its points, too.

    Raises:
        PlanRejected: If none does.
    """
    until, whole = time.monotonic() + request.patience, problem
    space = free_space(scene, problem.terms)
    why, finer = "", 0
    for number in range(TRIES):
        settings = SolverSettings(time=max(until - time.monotonic(), 0.0))
        found = find_path(problem, seed=request.seed + number, settings=settings)
        if found.is_feasible:
            path = np.concatenate([scene.start[None], found.path])
            rows = _timed(scene, path, request.speed)
            nearest, too_near = _nearest(space, rows)
            if not too_near:
                points = {arm: _rows_of(scene, rows, arm) for arm in scene.arms}
                return FoundMove(points, nearest, found.reason)
            finer = (finer + 1) % (FINER + 1)
            problem = problem.finer() if finer else whole
        why = why or (too_near if found.is_feasible else found.reason)
        is_far = not found.is_feasible and found.worst > FAR
        if is_far or time.monotonic() > until:
            break
    raise PlanRejected(f"no motion found: {why}")


def _goal(arm: str, place: Pose | Vector) -> Objective:
    if isinstance(place, Pose):
        return PoseGoal(f"{arm}/tool", place)
    return Near(arm, np.asarray(place, dtype=np.float64))


def _apart(scene: Scene, held: Mapping[str, str], request: MoveRequest) -> list[Distance]:
    """Return the distances to be kept, smaller ones where bodies begin nearer.

    Raises:
        PlanRejected: If bodies are within each other at the start.
    """
    clearance = request.clearance
    grips = [PoseGoal(thing, Pose.identity(), f"{arm}/tool") for arm, thing in held.items()]
    others = [thing for thing in scene.things if thing not in held.values()]
    led = {arm for places in request.stops for arm in places}
    found = []
    for one in clearances(scene, grips, clearance):
        arm, thing = one.of  # the arm comes first
        if arm in led and thing in request.touching:
            found.append(Distance(scene, arm, thing, clearance, parts="arm"))
            found.append(Distance(scene, arm, thing, -AROUND, parts="hand"))
        else:
            found.append(one)
    found += [
        Distance(scene, thing, other, -TOUCHING if other in request.touching else clearance)
        for thing, other in product(held.values(), others)
    ]
    found = [one for one in found if one.pairs]
    frames = dict.fromkeys(name for one in found for name in one.frames)
    placed, kept = Kinematics(scene, frames).place(scene.start[None]), []
    for one in found:
        distance = one.margin - float(one.evaluate(placed)[0].max())
        if distance < min(-TOUCHING, one.margin):
            raise PlanRejected(
                f"start: {' and '.join(dict.fromkeys(one.of))} are {-distance:.3f} m within each "
                "other, allowed apart"
            )
        nearer = distance - 1e-3 < one.margin
        kept.append(Distance(scene, *one.of, distance - 1e-3, one.parts) if nearer else one)
    return kept


def _timed(scene: Scene, path: Matrix, speed: float) -> Matrix:
    """Return points of all numbers of slices, in the time that arms need."""
    velocity = np.where(np.isfinite(scene.velocity), scene.velocity * speed, np.inf)
    acceleration = np.where(np.isfinite(velocity), scene.acceleration * speed**2, np.inf)
    shares: Vector = np.linspace(0.0, 1.0, len(path))
    return timed(shares, path, velocity, acceleration)


def _nearest(space: FreeSpace | None, rows: Matrix) -> tuple[float, str]:
    """Return how near bodies come on the motion as it will be gone, and which too near."""
    if space is None:  # there are no two that could
        return math.inf, ""
    count = max(2, math.ceil(float(rows[-1, 0]) / DENSE))
    postures = evaluate(rows, np.linspace(0.0, float(rows[-1, 0]), count + 1))[:, 0, : space.n]
    spared, nearest = space.sparing(SPARED, LEAST), math.inf
    for q in postures:
        if found := spared.too_near(q):
            (first, second), distance = found
            names = " and ".join(dict.fromkeys((first, second)))
            return distance, f"on the way {names} come as near as {distance:.4f} m"
        nearest = min(nearest, spared.nearest(q))
    return nearest, ""


def _rows_of(scene: Scene, rows: Matrix, arm: str) -> Matrix:
    """Return the points of one arm."""
    at, d = scene.columns[arm], scene.size
    parts = (rows[:, 1 + order * d : 1 + (order + 1) * d][:, at] for order in range(3))
    found: Matrix = np.column_stack([rows[:, 0], *parts])
    return found
