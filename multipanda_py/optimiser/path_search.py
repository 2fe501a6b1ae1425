# SPDX-License-Identifier: Apache-2.0
"""Paths from several beginnings, which stay clear between slices, too."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from multipanda_py.exceptions import PlanRejected
from multipanda_py.optimiser.arm_postures import quick_end, tool_goals
from multipanda_py.optimiser.between_slices import LEAST, SPARED, between, too_close
from multipanda_py.optimiser.clock import processor_time
from multipanda_py.optimiser.free_space import FreeSpace, free_space
from multipanda_py.optimiser.posture import MOST_TRIES, find_posture, random_slice
from multipanda_py.optimiser.problem import MOST_SLICES, Problem
from multipanda_py.optimiser.sampled_way import along, sampled_way
from multipanda_py.optimiser.scene import Scene
from multipanda_py.optimiser.solution import Solution
from multipanda_py.optimiser.solver import SolverSettings
from multipanda_py.state import Matrix, Vector

POSTURES = 20
"""Most postures to begin with in the search for one at the end of a phase."""
FEW = 2
"""The same, where dozens of postures of each arm have been tried already."""
DETOUR = 0.3
"""Farthest that the middle of a detour is from the straight way, as a share of joints' ranges."""
FINER = 2
"""How often the slices of a path are doubled where bodies come too close between them."""


def find_path(
    problem: Problem, *, tries: int = 10, seed: int = 0, settings: SolverSettings | None = None
) -> Solution:
    """Find a path where the start alone is no good beginning: goals far off, or arms in the way.

    A posture for the end of every phase is found first; without one there is no path. The search
    then begins with ways from one to the next around what is between them, see
    :func:`.sampled_way`, or where postures do not tell what is free with straight ones; after that
    with other postures and with detours. Where bodies come closer than half their margin between
    the slices of a path, it is found again with twice the slices.

    Args:
        problem: What is asked.
        tries: Most beginnings.
        seed: Of postures and detours; the same seed finds the same path.
        settings: Tolerance, iterations of a try, and time of all; by default 5 s.

    Returns:
        The path, with the problem's slices, or two or four times as many; else the nearest one.

    Raises:
        PlanRejected: If nothing is asked of the path, or tries are none.
        MissingExtra: If scipy is not installed.

    Thread: any; up to the limit of time, of its processor time.
    """
    if not 1 <= tries <= MOST_TRIES:
        raise PlanRejected(f"tries: got {tries}, allowed 1 to {MOST_TRIES}")
    settings = settings or SolverSettings(time=5.0)
    until = processor_time() + settings.time
    rng = np.random.default_rng(seed)
    space = free_space(problem.scene, problem.terms)
    best: Solution | None = None
    known: list[tuple[float, list[Vector]]] = []
    for number in range(tries):
        left = replace(settings, time=max(until - processor_time(), 0.0))
        if number % 2 or not known:
            ends = _phase_ends(problem, space, rng, bool(number), left)
            if isinstance(ends, list):
                known.append((_travel(problem.scene, ends), ends))
            elif not known:
                return ends
        _, ends = min(known, key=lambda one: one[0]) if number % 2 == 0 else known[-1]
        start = None if space is None else _around(problem, space, ends, rng, until)
        if start is None:
            start = _way(problem, ends, rng if number > 1 else None)
        left = replace(settings, time=max(until - processor_time(), 0.0))
        found = _solve(problem, space, start, left)
        found = _clear(problem, space, found, until, settings)
        if found.is_feasible:
            return found
        if best is None or found.worst < best.worst:
            best = found
        if processor_time() > until:
            break
    return best if best is not None else problem.solve(settings)


def _phase_ends(
    problem: Problem,
    space: FreeSpace | None,
    rng: np.random.Generator,
    anew: bool,
    settings: SolverSettings,
) -> list[Vector] | Solution:
    """Return postures at the ends of phases, or a straight way to one that nothing reaches."""
    scene, x = problem.scene, problem.scene.start
    ends: list[Vector] = []
    for phase in range(problem.phases):
        last = (phase + 1) * problem.each - 1
        terms = [
            replace(term, first=0, last=1)
            for term in problem.terms
            if term.order == 0 and term.first <= last < term.last
        ]
        begin = random_slice(scene, rng) if anew else x
        goals = None if space is None else tool_goals(scene, terms)
        quick = None
        if space is not None and goals is not None:
            quick = quick_end(scene, space, terms, goals, x, begin, rng)
        if quick is not None:
            x = quick
            ends.append(x)
            continue
        own = replace(settings, iterations=min(settings.iterations, 60))
        tries = POSTURES if goals is None else FEW  # which say what is in the way
        found = find_posture(scene, terms, begin, rng, tries, own)
        x = found.path[0]
        ends.append(x)
        if not found.is_feasible:
            ends += [x] * (problem.phases - len(ends))
            return Solution(
                scene,
                _way(problem, ends, None),
                problem.period * np.arange(1.0, problem.slices + 1.0),
                False,
                tuple(replace(one, phase=phase, slice=last) for one in found.violations),
                found.worst,
                found.cost,
                found.iterations,
                found.ended,
            )
    return ends


def _travel(scene: Scene, ends: list[Vector]) -> float:
    """Return how long joints take at full speed, all phases added [s]."""
    ways = np.abs(np.diff([scene.start, *ends], axis=0)) / scene.velocity
    return float(ways.max(axis=1).sum())


def _way(problem: Problem, ends: list[Vector], rng: np.random.Generator | None) -> Matrix:
    r"""Return a path through postures, from rest to rest; with random numbers by detours.

    .. math:: x = x_0 + w (x_1 - x_0) + 4 w (1 - w) \Delta, \qquad
        w = 10 s^3 - 15 s^4 + 6 s^5
    """
    scene, path = problem.scene, []
    w = _rest_to_rest(problem.each)[:, None]
    for begin, end in zip([scene.start, *ends[:-1]], ends):
        aside = np.zeros(scene.size)
        if rng is not None:
            aside = DETOUR * (random_slice(scene, rng) - random_slice(scene, rng))
        path.append(begin + w * (end - begin) + 4.0 * w * (1.0 - w) * aside)
    found: Matrix = np.clip(np.concatenate(path), scene.lower, scene.upper)
    return found


def _around(
    problem: Problem, space: FreeSpace, ends: list[Vector], rng: np.random.Generator, until: float
) -> Matrix | None:
    """Return a path through postures that is free between them; None if none was found."""
    scene, path = problem.scene, []
    parts = [scene.columns[arm] for arm in scene.arms]
    n = parts[-1].stop
    bounds = np.clip(scene.lower[:n], -np.pi, None), np.clip(scene.upper[:n], None, np.pi)
    for begin, end in zip([scene.start, *ends[:-1]], ends):
        corners = sampled_way(space, begin[:n], end[:n], bounds, parts, rng, until)
        if corners is None:
            return None
        path.append(along(corners, _rest_to_rest(problem.each)))
    return space.with_things(np.concatenate(path))


def _rest_to_rest(count: int) -> Vector:
    """Return how much of a way is behind at so many moments, from rest to rest."""
    s = np.arange(1, count + 1) / count
    shares: Vector = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    return shares


def _solve(
    problem: Problem, space: FreeSpace | None, start: Matrix, settings: SolverSettings
) -> Solution:
    """Solve a problem without the distances of what is far away, if these are kept then."""
    if space is None:
        return problem.solve(settings, start=start)
    found = problem.without_far(start).solve(settings, start=start)
    if not found.is_feasible or all(space.is_free(q) for q in found.path[:, : space.n]):
        return found
    return problem.solve(settings, start=found.path)


def _clear(
    problem: Problem,
    space: FreeSpace | None,
    found: Solution,
    until: float,
    settings: SolverSettings,
) -> Solution:
    """Return a feasible path that is clear between its slices, with more of them if need be."""
    if not found.is_feasible:
        return found
    spared = None if space is None else space.sparing(SPARED, LEAST)
    for number in range(FINER + 1):
        if spared is not None and all(spared.is_free(x[: spared.n]) for x in between(found)):
            return found
        violations = too_close(problem.terms, found, problem.each)
        if not violations:
            return found
        if number == FINER or 2 * problem.slices > MOST_SLICES or processor_time() > until:
            break
        problem = problem.finer()
        path = np.concatenate([found.scene.start[None], found.path])
        middle = 0.5 * (path[:-1] + path[1:])
        start = np.stack([middle, path[1:]], 1).reshape(-1, path.shape[1])
        left = replace(settings, time=max(until - processor_time(), 0.0))
        finer = _solve(problem, space, start, left)
        if not finer.is_feasible:
            return finer
        found = finer
    return replace(
        found, is_feasible=False, violations=violations, worst=violations[0].amount,
        ended="contradiction",
    )  # fmt: skip
