# SPDX-License-Identifier: Apache-2.0
"""Paths from several beginnings, which stay clear between slices, too."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.configuration import (
    MOST_TRIES,
    find_posture,
    quick_end,
    random_slice,
    tool_goals,
)
from multipanda_py.planning.optimiser.free_space import (
    LEAST,
    SPARED,
    FreeSpace,
    between,
    free_space,
    too_close,
)
from multipanda_py.planning.optimiser.problem import MOST_SLICES, Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solution import Solution
from multipanda_py.planning.optimiser.solver import SolverSettings, processor_time
from multipanda_py.state import Matrix, Vector

STEP, FINE = 0.4, 0.05
"""Longest edge of a tree, and step in which it is looked at, by the fastest joint [rad, m]."""
NODES = 3000
"""Most of a tree."""
WIDEST = 200
"""Draws after which samples are anywhere; before that they are around the straight way."""
SHORTCUTS = 60
"""Tries to cut a corner."""


class _Tree:
    """Postures, and from which each was reached."""

    def __init__(self, root: Vector) -> None:
        self.nodes = np.empty((NODES + 1, len(root)))
        self.nodes[0] = root
        self.parents = [-1]

    def nearest(self, q: Vector) -> int:
        known = self.nodes[: len(self.parents)]
        return int(np.abs(known - q).max(axis=1).argmin())

    def add(self, q: Vector, parent: int) -> int:
        self.nodes[len(self.parents)] = q
        self.parents.append(parent)
        return len(self.parents) - 1

    @property
    def is_full(self) -> bool:
        return len(self.parents) > NODES

    def way_to(self, number: int) -> list[Vector]:
        """Return postures from one back to the root."""
        found = []
        while number >= 0:
            found.append(self.nodes[number].copy())
            number = self.parents[number]
        return found


def sampled_way(
    space: FreeSpace,
    begin: Vector,
    end: Vector,
    bounds: tuple[Vector, Vector],
    parts: list[slice],
    rng: np.random.Generator,
    until: float,
) -> Matrix | None:
    """Find corners of a free way: the straight one, arm after arm, or by two trees of samples.

    Trees grow towards each other from both ends (RRT-Connect: Kuffner and LaValle, ICRA 2000);
    corners are cut where the straight way is free (Geraerts and Overmars, IJRR 2007).

    Args:
        space: Says what is free.
        begin: Postures of all arms, (n,).
        end: Others, (n,).
        bounds: Of samples, lower and upper ones, finite, (n,) each.
        parts: Which numbers are those of which arm.
        rng: Of samples: the same one finds the same way.
        until: When to give up, as of :func:`.processor_time` [s].

    Returns:
        Corners, both ends among them, (k, n); None if there is no such way, or none was found.
    """
    if not (space.is_free(begin) and space.is_free(end)):
        return None
    for corners in _simple(begin, end, parts):
        if all(space.is_way_free(a, b, FINE) for a, b in itertools.pairwise(corners)):
            return np.array(corners)
    found = _connect(space, begin, end, bounds, rng, until)
    return None if found is None else _cut(space, found, rng)


def _simple(begin: Vector, end: Vector, parts: list[slice]) -> Iterator[list[Vector]]:
    """Yield the straight way, and those on which arms move one after another."""
    yield [begin, end]
    for order in (parts, parts[::-1]) if len(parts) > 1 else ():
        corners = [begin]
        for part in order:
            corner = corners[-1].copy()
            corner[part] = end[part]
            corners.append(corner)
        yield corners


def _connect(
    space: FreeSpace,
    begin: Vector,
    end: Vector,
    bounds: tuple[Vector, Vector],
    rng: np.random.Generator,
    until: float,
) -> list[Vector] | None:
    first, second = _Tree(begin), _Tree(end)
    is_turned, drawn = False, 0
    while not (first.is_full or second.is_full) and processor_time() < until:
        drawn += 1
        here = _reach(space, first, _sample(begin, end, bounds, drawn, rng), at_once=False)
        if here is not None:
            q = first.nodes[here]
            there = _reach(space, second, q, at_once=True)
            if there is not None and np.array_equal(second.nodes[there], q):
                way = [*first.way_to(here)[::-1], *second.way_to(there)[1:]]
                return way[::-1] if is_turned else way
        first, second, is_turned = second, first, not is_turned
    return None


def _sample(
    begin: Vector, end: Vector, bounds: tuple[Vector, Vector], drawn: int, rng: np.random.Generator
) -> Vector:
    """Return postures around the straight way, farther and farther from it."""
    lower, upper = bounds
    middle = begin + rng.uniform() * (end - begin)
    width = min(1.0, 0.2 + drawn / WIDEST)
    q: Vector = middle + width * rng.uniform(lower - middle, upper - middle)
    return q


def _reach(space: FreeSpace, tree: _Tree, q: Vector, *, at_once: bool) -> int | None:
    """Grow a tree towards postures: by one edge, or until they are reached or it is stopped."""
    number, grown = tree.nearest(q), None
    while not tree.is_full:
        here = tree.nodes[number]
        way = q - here
        size = float(np.abs(way).max())
        new = q if size <= STEP else here + way * (STEP / size)
        if not space.is_way_free(here, new, FINE):
            break
        number = grown = tree.add(new, number)
        if size <= STEP or not at_once:
            break
    return grown


def _cut(space: FreeSpace, corners: list[Vector], rng: np.random.Generator) -> Matrix:
    """Replace detours by straight ways where these are free."""
    path = np.array(corners)
    for _ in range(SHORTCUTS):
        lengths = np.abs(np.diff(path, axis=0)).max(axis=1)
        at = np.concatenate([[0.0], np.cumsum(lengths)])
        a, b = np.sort(rng.uniform(0.0, at[-1], 2))
        i, j = (int(np.searchsorted(at, x, side="right")) - 1 for x in (a, b))
        if i == j or j >= len(lengths):
            continue
        p = path[i] + (path[i + 1] - path[i]) * (a - at[i]) / lengths[i]
        q = path[j] + (path[j + 1] - path[j]) * (b - at[j]) / lengths[j]
        if space.is_way_free(p, q, FINE):
            path = np.concatenate([path[: i + 1], [p, q], path[j + 1 :]])
            keep = np.abs(np.diff(path, axis=0)).max(axis=1) > 1e-9
            path = path[np.concatenate([[True], keep])]
    return path


def along(corners: Matrix, shares: Vector) -> Matrix:
    """Return postures at shares of the length of a way through corners, (s, n)."""
    at = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(corners, axis=0)).max(axis=1))])
    if at[-1] == 0.0:
        return np.repeat(corners[:1], len(shares), axis=0)
    found: Matrix = np.stack(
        [np.interp(shares * at[-1], at, corners[:, k]) for k in range(corners.shape[1])], 1
    )
    return found


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
