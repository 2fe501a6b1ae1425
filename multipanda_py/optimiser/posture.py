# SPDX-License-Identifier: Apache-2.0
"""Postures of arms, and of things in their hands, that reach goals: paths of one slice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.optimiser.clearances import clearances
from multipanda_py.optimiser.clock import processor_time
from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.motion import Near, WithinLimits
from multipanda_py.optimiser.objective import Objective
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solution import Solution
from multipanda_py.optimiser.solver import SolverSettings, solve
from multipanda_py.optimiser.term import Term, make_term
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
