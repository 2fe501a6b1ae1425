# SPDX-License-Identifier: Apache-2.0
"""Postures of arms whose tools have one pose each, by arm: many in the time of one for all."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.clearances import clearances
from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.free_space import FreeSpace
from multipanda_py.planning.optimiser.goals import Axis, Orientation, PoseGoal
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import WORLD, Scene
from multipanda_py.planning.optimiser.solution import Solution
from multipanda_py.planning.optimiser.solver import SolverSettings, processor_time, solve
from multipanda_py.planning.optimiser.term import Near, Objective, Term, WithinLimits, make_term
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

NEARNESS = 0.1
"""Weight of how far numbers are from where the search began, against constraints of 1e3."""
MOST_TRIES = 1000


def inverse_kinematics(
    scene: Scene,
    goals: Sequence[Objective],
    *,
    near: ArrayLike | None = None,
    apart: Sequence[Objective] | None = None,
    limit_margin: float = 0.0,
    tries: int = 30,
    seed: int = 0,
    settings: SolverSettings | None = None,
) -> Vector:
    r"""Find a posture that reaches goals, keeps joints within limits and bodies apart.

    .. math:: \min_x |x - x_0|^2 \quad \text{with} \quad \phi_{goal}(x) = 0, \;
        q_l \le q \le q_u, \; d(x) \ge d_{min}

    from :math:`x_0` and, where that leads nowhere, from random postures of the arms that are off.
    A movable thing stays where it is, unless a goal places it: ``PoseGoal("left/tool", grip,
    "box")`` puts a tool on a box, ``PoseGoal("box", place)`` puts the box somewhere, and both
    together are the posture in which it is held there.

    Args:
        scene: Arms and things.
        goals: What is to be met, about one or several arms; nothing about rates.
        near: Slice to be near to and to begin with, (d,); by default the scene's start.
        apart: Distances to be kept; by default all :func:`.clearances`.
        limit_margin: From joint limits [rad, m].
        tries: Most postures to begin with.
        seed: Of the random ones; the same seed finds the same posture.
        settings: Tolerance, iterations of a try, and time of all.

    Returns:
        A slice, (d,), read-only: ``scene.posture(x, arm)``, ``scene.pose(x, thing)``.

    Raises:
        PlanRejected: If no try gets there, with what is off in the nearest and by how much; or if
            something asked for is none of this.
        UnknownName: If the scene does not have what a goal is about.

    Thread: any; up to the limit of time, of its processor time.
    """
    if not goals:
        raise PlanRejected("goals: got none, allowed one or more")
    if not 1 <= tries <= MOST_TRIES:
        raise PlanRejected(f"tries: got {tries}, allowed 1 to {MOST_TRIES}")
    begin = scene.start if near is None else np.array(near, dtype=np.float64)
    if begin.shape != scene.start.shape or not np.isfinite(begin).all():
        raise PlanRejected(f"near: got {begin.shape}, allowed {scene.size} finite numbers")
    for goal in goals:
        if goal.order:
            raise PlanRejected(f"goals: {type(goal).__name__}: is about a rate, allowed places")
        goal.check(scene)
    placed = {scene.body(goal.frames[0]) for goal in goals if goal.frames}
    resting = [name for name in scene.movable if name not in placed]
    settings = settings or SolverSettings(iterations=60, time=2.0)
    asked: list[Objective] = [
        *goals,
        WithinLimits(margin=limit_margin + settings.violation),
        *(Near(name, begin[scene.columns[name]]) for name in resting),
        *(clearances(scene, goals) if apart is None else apart),
    ]
    terms = [make_term(scene, one, "equal", (0, 1), 1.0) for one in asked]
    found = find_posture(scene, terms, begin, np.random.default_rng(seed), tries, settings)
    if not found.is_feasible:
        missed = "; ".join(violation.missed for violation in found.violations[:3])
        raise PlanRejected(f"no posture found, the nearest one: {missed}")
    slice_: Vector = found.path[0]
    return slice_


def find_posture(
    scene: Scene,
    terms: Sequence[Term],
    begin: Vector,
    rng: np.random.Generator,
    tries: int,
    settings: SolverSettings,
) -> Solution:
    """Solve a problem of one slice from several postures; the nearest if none is feasible.

    What is reached is found first, as it is cheap; then solids are moved apart.

    Args:
        scene: What the numbers mean.
        terms: Of one slice.
        begin: The first posture to begin with, and the one to be near to, (d,).
        rng: For the others.
        tries: Most of them.
        settings: Tolerance, iterations of a try, and time of all.
    """
    until = processor_time() + settings.time
    nearness = [
        make_term(scene, Near(name, begin[at]), "cost", (0, 1), 1.0, NEARNESS)
        for name, at in scene.columns.items()
    ]
    first = [*nearness, *(term for term in terms if not isinstance(term.objective, Distance))]
    every = [*nearness, *terms]
    best: tuple[bool, float, Solution] | None = None
    x = begin
    for _ in range(tries):
        left = replace(settings, time=max(until - processor_time(), 0.0))
        found = solve(scene, first, x[None], 1.0, 1, left)
        is_reached = found.is_feasible
        if is_reached and len(every) > len(first):
            found = _moved_apart(scene, every, found, left)
        if best is None or (not is_reached, found.worst) < best[:2]:
            best = (not is_reached, found.worst, found)
        if found.is_feasible or processor_time() > until:
            break
        x = _anew(scene, found, begin, rng)
    if best is None:
        raise PlanRejected(f"tries: got {tries}, allowed 1 or more")
    return best[2]


def _moved_apart(
    scene: Scene, terms: Sequence[Term], found: Solution, settings: SolverSettings
) -> Solution:
    """Solve a problem with its distances: without those of what is far away, if that is enough."""
    near, far = _parted(scene, terms, found)
    if not far:
        return solve(scene, terms, found.path, 1.0, 1, settings)
    found = solve(scene, near, found.path, 1.0, 1, settings)
    if not found.is_feasible or not _parted(scene, far, found)[0]:
        return found
    return solve(scene, terms, found.path, 1.0, 1, settings)


def _parted(scene: Scene, terms: Sequence[Term], found: Solution) -> tuple[list[Term], list[Term]]:
    """Return the terms that may count in a slice, and distances of what is far away there."""
    distances = {
        k: one for k, term in enumerate(terms) if isinstance(one := term.objective, Distance)
    }
    frames = dict.fromkeys(name for one in distances.values() for name in one.frames)
    placed = Kinematics(scene, frames).place(found.path)
    far = {k for k, one in distances.items() if not one.is_near(placed)}
    return (
        [term for k, term in enumerate(terms) if k not in far],
        [terms[k] for k in sorted(far)],
    )


def _anew(scene: Scene, found: Solution, begin: Vector, rng: np.random.Generator) -> Vector:
    """Return a posture with other joints of those arms that are off."""
    bodies = {body for violation in found.violations for body in violation.bodies}
    drawn = random_slice(scene, rng)
    x = begin.copy()
    for arm in scene.arms:
        at = scene.columns[arm]
        is_off = arm in bodies or bodies.isdisjoint(scene.arms)
        x[at] = drawn[at] if is_off else found.path[0, at]
    return x


def random_slice(scene: Scene, rng: np.random.Generator) -> Vector:
    """Return joints anywhere within limits, endless ones within a turn, and things at rest."""
    x = scene.start.copy()
    for arm in scene.arms:
        at = scene.columns[arm]
        lower, upper = scene.lower[at], scene.upper[at]
        endless = ~np.isfinite(upper - lower)
        x[at] = rng.uniform(np.where(endless, -np.pi, lower), np.where(endless, np.pi, upper))
    return x


STEPS = 40
"""Most of a search from one posture."""
CLOSE = 1e-6
"""To the pose [m, rad]."""
TURNED = 1e-5
"""By which a pose may miss how its tool is to be turned besides [rad]."""
DAMPING = 1e-6
LONGEST = 0.6
"""Longest step of a joint [rad, m]."""
SEEDS = 48
"""Postures that searches begin with, of each arm."""
BATCH = 8
"""Seeds after which postures of the arms are put together."""
KNOWN = 12
"""Most postures of an arm that are kept."""
_ALIKE = 0.05


def tool_goals(scene: Scene, terms: Sequence[Term]) -> Mapping[str, Pose] | None:
    """Return the pose of each tool in the world; None if anything else is asked of a slice.

    Args:
        scene: Arms and things; what is in hands does not count.
        terms: Of the slice.
    """
    goals: dict[str, Pose] = {}
    turned: list[Axis | Orientation] = []
    for term in terms:
        one = term.objective
        if term.is_cost or isinstance(one, (WithinLimits, Distance)):
            continue
        if isinstance(one, (Axis, Orientation)) and one.frames[1] == WORLD:
            turned.append(one)
            continue
        if not isinstance(one, PoseGoal):
            return None
        frame, base = one.frames
        arm, _, link = frame.partition("/")
        if base == WORLD and link == "tool" and arm in scene.arms and arm not in goals:
            goals[arm] = one.pose
        elif frame not in scene.movable:
            return None
    for one in turned:  # which a pose that is turned so has, too
        goal = goals.get(one.frames[0].removesuffix("/tool"))
        if goal is None or one.off(goal.rotation) > TURNED:
            return None
    return goals or None


def quick_end(
    scene: Scene,
    space: FreeSpace,
    terms: Sequence[Term],
    goals: Mapping[str, Pose],
    stays: Vector,
    begin: Vector,
    rng: np.random.Generator,
) -> Vector | None:
    """Return a free slice that meets poses of tools; None if none was found.

    Args:
        scene: Arms and things.
        space: Says what is free, and where things are that hands carry.
        terms: Of the slice, for limits.
        goals: See :func:`tool_goals`.
        stays: Slice with the postures of arms that nothing is asked of, (d,).
        begin: Slice to be near to, (d,).
        rng: Of postures that searches begin with.
    """
    margins = [t.objective.margin for t in terms if isinstance(t.objective, WithinLimits)]
    x = stays.copy()
    for arm in goals:
        x[scene.columns[arm]] = begin[scene.columns[arm]]
    found = free_postures(scene, space, goals, x[: space.n], max(margins, default=0.0), rng)
    return None if found is None else space.with_things(found[None])[0]


def free_postures(
    scene: Scene,
    space: FreeSpace,
    goals: Mapping[str, Pose],
    begin: Vector,
    margin: float,
    rng: np.random.Generator,
) -> Vector | None:
    """Find postures of all arms that reach poses and are free, near to where they begin.

    Args:
        scene: Arms and things.
        space: Says what is free.
        goals: Of tools in the world; other arms stay.
        begin: Postures of all arms, (n,).
        margin: From joint limits [rad, m].
        rng: Of postures that searches begin with.

    Returns:
        Postures of all arms, (n,); None if none was found.
    """
    searches = {
        arm: _postures(scene, arm, pose, begin[scene.columns[arm]], margin, rng)
        for arm, pose in goals.items()
    }
    known: dict[str, list[Vector]] = {arm: [] for arm in goals}
    tried: set[tuple[int, ...]] = set()
    for _ in range(SEEDS // BATCH):
        for arm, search in searches.items():
            for q in itertools.islice(search, BATCH):
                if q is not None and len(known[arm]) < KNOWN and _is_new(q, known[arm]):
                    known[arm].append(q)
        for chosen in _nearest_first(scene, known, begin):
            if chosen in tried:
                continue
            tried.add(chosen)
            x = begin.copy()
            for arm, number in zip(known, chosen):
                x[scene.columns[arm]] = known[arm][number]
            if space.is_free(x):
                return x
    return None


def _is_new(q: Vector, known: Sequence[Vector]) -> bool:
    return all(float(np.abs(q - other).max()) > _ALIKE for other in known)


def _nearest_first(
    scene: Scene, known: Mapping[str, Sequence[Vector]], begin: Vector
) -> list[tuple[int, ...]]:
    """Return all choices of a posture for each arm, by how long the slowest joint takes."""
    times = []
    for arm, postures in known.items():
        at = scene.columns[arm]
        times.append([float((np.abs(q - begin[at]) / scene.velocity[at]).max()) for q in postures])
    choices = itertools.product(*(range(len(postures)) for postures in known.values()))
    return sorted(choices, key=lambda chosen: sum(t[k] for t, k in zip(times, chosen)))


def _postures(
    scene: Scene, arm: str, pose: Pose, begin: Vector, margin: float, rng: np.random.Generator
) -> Iterator[Vector | None]:
    """Yield a posture for each beginning, None where the search has failed."""
    model = scene.model(arm)
    data, frame = model.createData(), model.getFrameId(scene.arms[arm].ee_frame)
    at, goal = scene.columns[arm], pin.SE3(pose.rotation, pose.position)
    lower, upper = scene.lower[at] + margin, scene.upper[at] - margin
    low, high = np.clip(lower, -np.pi, None), np.clip(upper, None, np.pi)
    q = begin
    while True:
        yield _reach(model, data, frame, goal, np.clip(q, lower, upper), lower, upper)
        q = rng.uniform(low, high)


def _reach(
    model: pin.Model, data: pin.Data, frame: int, goal: pin.SE3, q: Vector, lower: Vector,
    upper: Vector,
) -> Vector | None:  # fmt: skip
    r"""Return a posture with a frame at its goal, by damped Gauss-Newton steps within limits.

    .. math:: \Delta q = J^T (J J^T + \lambda I)^{-1} e, \qquad e = \log (T^{-1} T^*)
    """
    for _ in range(STEPS):
        pin.computeJointJacobians(model, data, q)  # places the joints, too
        error = pin.log6(pin.updateFramePlacement(model, data, frame).actInv(goal)).vector
        size = float(np.abs(error).max())
        if size < CLOSE:
            return q
        jacobian = pin.getFrameJacobian(model, data, frame, pin.ReferenceFrame.LOCAL)
        damping = (DAMPING + 1e-2 * min(size, 1.0) ** 2) * np.eye(6)
        step = jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + damping, error)
        step *= min(1.0, LONGEST / max(float(np.abs(step).max()), 1e-12))
        q = np.clip(q + step, lower, upper)
    return None
