# SPDX-License-Identifier: Apache-2.0
"""Ways between two postures around what is between them, by samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from multipanda_py.optimiser.clock import processor_time
from multipanda_py.optimiser.free_space import FreeSpace
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
