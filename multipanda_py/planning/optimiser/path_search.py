# SPDX-License-Identifier: Apache-2.0
"""Path search from several initial paths, with distance checks between time steps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.configuration import (
    MAX_TRIES,
    find_configuration,
    random_slice,
    sample_phase_end,
    tool_goals,
)
from multipanda_py.planning.optimiser.free_space import (
    BETWEEN_FRACTION,
    BETWEEN_TOLERANCE,
    FreeSpace,
    between,
    free_space,
    too_close,
)
from multipanda_py.planning.optimiser.problem import MAX_TIME_STEPS, Problem
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import Solution, SolverSettings, processor_time
from multipanda_py.state import Matrix, Vector

MAX_EDGE, CHECK_STEP = 0.4, 0.05
"""Maximum length of an edge of the search trees, and step between distance checks on it. Both are
displacements of the joint that moves most [rad, m]."""
MAX_NODES = 3000
"""Maximum number of nodes of each of the two search trees."""
FULL_RANGE_SAMPLES = 200
"""Number of random samples near the straight path; later samples cover the whole joint ranges."""
SHORTCUT_ATTEMPTS = 60
"""Number of attempts to shorten a path by a straight segment."""


class _Tree:
    """Tree of joint configurations with their parents."""

    def __init__(self, root: Vector) -> None:
        self.nodes = np.empty((MAX_NODES + 1, len(root)))
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
        return len(self.parents) > MAX_NODES

    def path_to(self, node: int) -> list[Vector]:
        result = []
        while node >= 0:
            result.append(self.nodes[node].copy())
            node = self.parents[node]
        return result


def plan_sampled(
    space: FreeSpace,
    start: Vector,
    end: Vector,
    bounds: tuple[Vector, Vector],
    parts: list[slice],
    rng: np.random.Generator,
    until: float,
) -> Matrix | None:
    """Find a collision-free path between two configurations, straight or by RRT-Connect.

    Sources: Kuffner and LaValle, ICRA 2000; Geraerts and Overmars, IJRR 2007 (short cuts).

    Args:
        space: Test of distances.
        start: First joint configuration of all arms, (n,).
        end: Last joint configuration of all arms, (n,).
        bounds: Finite lower and upper bounds of the samples, (n,) each.
        parts: Columns of each arm in a configuration.
        rng: Random generator. Equal seeds give equal paths.
        until: Processor time of this thread at which the search gives up [s].

    Returns:
        Corners of the path including both ends, (k, n). None if no path was found.
    """
    if not (space.is_free(start) and space.is_free(end)):
        return None
    for corners in _straight_paths(start, end, parts):
        if all(space.is_segment_free(a, b, CHECK_STEP) for a, b in itertools.pairwise(corners)):
            return np.array(corners)
    result = _connect(space, start, end, bounds, rng, until)
    return None if result is None else _cut(space, result, rng)


def _straight_paths(start: Vector, end: Vector, parts: list[slice]) -> Iterator[list[Vector]]:
    yield [start, end]
    for order in (parts, parts[::-1]) if len(parts) > 1 else ():
        corners = [start]
        for part in order:
            corner = corners[-1].copy()
            corner[part] = end[part]
            corners.append(corner)
        yield corners


def _connect(
    space: FreeSpace,
    start: Vector,
    end: Vector,
    bounds: tuple[Vector, Vector],
    rng: np.random.Generator,
    until: float,
) -> list[Vector] | None:
    first, second = _Tree(start), _Tree(end)
    is_turned, drawn = False, 0
    while not (first.is_full or second.is_full) and processor_time() < until:
        drawn += 1
        here = _grow_tree(
            space, first, _sample_near_line(start, end, bounds, drawn, rng), up_to_obstacle=False
        )
        if here is not None:
            q = first.nodes[here]
            there = _grow_tree(space, second, q, up_to_obstacle=True)
            if there is not None and np.array_equal(second.nodes[there], q):
                path = [*first.path_to(here)[::-1], *second.path_to(there)[1:]]
                return path[::-1] if is_turned else path
        first, second, is_turned = second, first, not is_turned
    return None


def _sample_near_line(
    start: Vector,
    end: Vector,
    bounds: tuple[Vector, Vector],
    n_samples: int,
    rng: np.random.Generator,
) -> Vector:
    lower, upper = bounds
    middle = start + rng.uniform() * (end - start)
    # The range around the straight path grows with the number of samples.
    width = min(1.0, 0.2 + n_samples / FULL_RANGE_SAMPLES)
    q: Vector = middle + width * rng.uniform(lower - middle, upper - middle)
    return q


def _grow_tree(space: FreeSpace, tree: _Tree, q: Vector, *, up_to_obstacle: bool) -> int | None:
    """Return the index of the last new node; None if no edge was free."""
    number, grown = tree.nearest(q), None
    while not tree.is_full:
        here = tree.nodes[number]
        displacement = q - here
        size = float(np.abs(displacement).max())
        new = q if size <= MAX_EDGE else here + displacement * (MAX_EDGE / size)
        if not space.is_segment_free(here, new, CHECK_STEP):
            break
        number = grown = tree.add(new, number)
        if size <= MAX_EDGE or not up_to_obstacle:
            break
    return grown


def _cut(space: FreeSpace, corners: list[Vector], rng: np.random.Generator) -> Matrix:
    path = np.array(corners)
    for _ in range(SHORTCUT_ATTEMPTS):
        lengths = np.abs(np.diff(path, axis=0)).max(axis=1)
        at = np.concatenate([[0.0], np.cumsum(lengths)])
        a, b = np.sort(rng.uniform(0.0, at[-1], 2))
        i, j = (int(np.searchsorted(at, x, side="right")) - 1 for x in (a, b))
        if i == j or j >= len(lengths):
            continue
        p = path[i] + (path[i + 1] - path[i]) * (a - at[i]) / lengths[i]
        q = path[j] + (path[j + 1] - path[j]) * (b - at[j]) / lengths[j]
        if space.is_segment_free(p, q, CHECK_STEP):
            path = np.concatenate([path[: i + 1], [p, q], path[j + 1 :]])
            keep = np.abs(np.diff(path, axis=0)).max(axis=1) > 1e-9
            path = path[np.concatenate([[True], keep])]
    return path


def along(corners: Matrix, fractions: Vector) -> Matrix:
    """Return configurations at fractions (0 to 1) of the length of a path, (s, n).

    The length of a segment is its largest joint motion.
    """
    at = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(corners, axis=0)).max(axis=1))])
    if at[-1] == 0.0:
        return np.repeat(corners[:1], len(fractions), axis=0)
    result: Matrix = np.stack(
        [np.interp(fractions * at[-1], at, corners[:, k]) for k in range(corners.shape[1])], 1
    )
    return result


MAX_END_STARTS = 20
"""Maximum number of starts of the search for a configuration at the end of a phase."""
MAX_EXTRA_END_STARTS = 2
"""Maximum number of these starts after a failure of :func:`.sample_phase_end`."""
MAX_DETOUR = 0.3
"""Maximum distance of the middle of a detour from the straight path, relative to the joint
ranges."""
MAX_REFINEMENTS = 2
"""Maximum number of times that the time steps are doubled if bodies are too close between them."""


def find_path(
    problem: Problem, *, tries: int = 10, seed: int = 0, settings: SolverSettings | None = None
) -> Solution:
    """Find a path around obstacles, also to goals that are far away.

    Several initial paths through configurations at the phase ends are optimised. If bodies come
    too close between time steps, the number of time steps is doubled.

    Args:
        problem: Problem to solve.
        tries: Maximum number of initial paths.
        seed: Random seed. Equal seeds give equal paths.
        settings: Tolerance, iterations per attempt, and time of the whole search, by default 5 s.

    Returns:
        Feasible path, with up to four times as many time steps as the problem. If none was found,
        the path with the smallest violation.

    Raises:
        PlanRejected: If the problem has no terms, or ``tries`` is out of range.
        MissingExtra: If scipy is not installed.

    Thread: any; it takes up to ``settings.time`` seconds of processor time.
    """
    if not 1 <= tries <= MAX_TRIES:
        raise PlanRejected(f"tries: got {tries}, allowed 1 to {MAX_TRIES}")
    settings = settings or SolverSettings(time=5.0)
    until = processor_time() + settings.time
    rng = np.random.default_rng(seed)
    space = free_space(problem.scene, problem.terms)
    best: Solution | None = None
    known: list[tuple[float, list[Vector]]] = []
    for number in range(tries):
        left = replace(settings, time=max(until - processor_time(), 0.0))
        if number % 2 or not known:
            ends = _find_phase_ends(problem, space, rng, bool(number), left)
            if isinstance(ends, list):
                known.append((_travel_time(problem.scene, ends), ends))
            elif not known:
                return ends
        _, ends = min(known, key=lambda one: one[0]) if number % 2 == 0 else known[-1]
        start = None if space is None else _collision_free_path(problem, space, ends, rng, until)
        if start is None:
            start = _path_through(problem, ends, rng if number > 1 else None)
        left = replace(settings, time=max(until - processor_time(), 0.0))
        path = _solve(problem, space, start, left)
        path = _refine_between_steps(problem, space, path, until, settings)
        if path.is_feasible:
            return path
        if best is None or path.worst < best.worst:
            best = path
        if processor_time() > until:
            break
    return best if best is not None else problem.solve(settings)


def _find_phase_ends(
    problem: Problem,
    space: FreeSpace | None,
    rng: np.random.Generator,
    random_starts: bool,
    settings: SolverSettings,
) -> list[Vector] | Solution:
    """Return the variables at the end of each phase, (d,) each, or an infeasible solution."""
    scene, x = problem.scene, problem.scene.start
    ends: list[Vector] = []
    for phase in range(problem.phases):
        last = (phase + 1) * problem.each - 1
        terms = [
            replace(term, first=0, last=1)
            for term in problem.terms
            if term.order == 0 and term.first <= last < term.last
        ]
        start = random_slice(scene, rng) if random_starts else x
        goals = None if space is None else tool_goals(scene, terms)
        quick = None
        if space is not None and goals is not None:
            quick = sample_phase_end(scene, space, terms, goals, x, start, rng)
        if quick is not None:
            x = quick
            ends.append(x)
            continue
        own = replace(settings, iterations=min(settings.iterations, 60))
        # With tool goals, sample_phase_end has already failed from many starts. A few more
        # suffice to find the violation to report.
        tries = MAX_END_STARTS if goals is None else MAX_EXTRA_END_STARTS
        phase_ends = find_configuration(scene, terms, start, rng, tries, own)
        x = phase_ends.path[0]
        ends.append(x)
        if not phase_ends.is_feasible:
            ends += [x] * (problem.phases - len(ends))
            return Solution(
                scene,
                _path_through(problem, ends, None),
                problem.period * np.arange(1.0, problem.slices + 1.0),
                False,
                tuple(replace(one, phase=phase, step=last) for one in phase_ends.violations),
                phase_ends.worst,
                phase_ends.cost,
                phase_ends.iterations,
                phase_ends.ended,
            )
    return ends


def _travel_time(scene: Scene, ends: list[Vector]) -> float:
    paths = np.abs(np.diff([scene.start, *ends], axis=0)) / scene.velocity
    return float(paths.max(axis=1).sum())


def _path_through(problem: Problem, ends: list[Vector], rng: np.random.Generator | None) -> Matrix:
    """Return a path, (T, d), with stops at the phase ends, and random detours with ``rng``."""
    scene, path = problem.scene, []
    # x = x_0 + w (x_1 - x_0) + 4 w (1 - w) aside
    w = _rest_to_rest_fractions(problem.each)[:, None]
    for start, end in zip([scene.start, *ends[:-1]], ends):
        aside = np.zeros(scene.size)
        if rng is not None:
            aside = MAX_DETOUR * (random_slice(scene, rng) - random_slice(scene, rng))
        path.append(start + w * (end - start) + 4.0 * w * (1.0 - w) * aside)
    result: Matrix = np.clip(np.concatenate(path), scene.lower, scene.upper)
    return result


def _collision_free_path(
    problem: Problem, space: FreeSpace, ends: list[Vector], rng: np.random.Generator, until: float
) -> Matrix | None:
    """Return a path, (T, d); None if none is found before the processor time ``until`` [s]."""
    scene, path = problem.scene, []
    parts = [scene.columns[arm] for arm in scene.arms]
    n = parts[-1].stop
    bounds = np.clip(scene.lower[:n], -np.pi, None), np.clip(scene.upper[:n], None, np.pi)
    for start, end in zip([scene.start, *ends[:-1]], ends):
        corners = plan_sampled(space, start[:n], end[:n], bounds, parts, rng, until)
        if corners is None:
            return None
        path.append(along(corners, _rest_to_rest_fractions(problem.each)))
    return space.with_attached_objects(np.concatenate(path))


def _rest_to_rest_fractions(n_steps: int) -> Vector:
    s = np.arange(1, n_steps + 1) / n_steps
    fractions: Vector = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    return fractions


def _solve(
    problem: Problem, space: FreeSpace | None, start: Matrix, settings: SolverSettings
) -> Solution:
    if space is None:
        return problem.solve(settings, start=start)
    result = problem.without_far(start).solve(settings, start=start)
    if not result.is_feasible or all(space.is_free(q) for q in result.path[:, : space.n]):
        return result
    return problem.solve(settings, start=result.path)


def _refine_between_steps(
    problem: Problem,
    space: FreeSpace | None,
    result: Solution,
    until: float,
    settings: SolverSettings,
) -> Solution:
    """Return the refined path; infeasible if bodies are still too close between time steps."""
    if not result.is_feasible:
        return result
    spared = None if space is None else space.sparing(BETWEEN_FRACTION, BETWEEN_TOLERANCE)
    for number in range(MAX_REFINEMENTS + 1):
        if spared is not None and all(spared.is_free(x[: spared.n]) for x in between(result)):
            return result
        violations = too_close(problem.terms, result, problem.each)
        if not violations:
            return result
        if (
            number == MAX_REFINEMENTS
            or 2 * problem.slices > MAX_TIME_STEPS
            or processor_time() > until
        ):
            break
        problem = problem.finer()
        path = np.concatenate([result.scene.start[None], result.path])
        middle = 0.5 * (path[:-1] + path[1:])
        start = np.stack([middle, path[1:]], 1).reshape(-1, path.shape[1])
        left = replace(settings, time=max(until - processor_time(), 0.0))
        finer = _solve(problem, space, start, left)
        if not finer.is_feasible:
            return finer
        result = finer
    return replace(
        result, is_feasible=False, violations=violations, worst=violations[0].amount,
        ended="contradiction",
    )  # fmt: skip
