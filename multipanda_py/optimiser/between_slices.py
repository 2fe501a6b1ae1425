# SPDX-License-Identifier: Apache-2.0
"""Distances between the slices of a path, where the solver does not look."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from multipanda_py.optimiser.distance import Distance
from multipanda_py.optimiser.kinematics import Kinematics
from multipanda_py.optimiser.solution import Solution, Violation
from multipanda_py.optimiser.term import Term
from multipanda_py.state import Matrix

PARTS = 8
"""Of the way from one slice to the next, the bodies are looked at between them."""
SPARED = 0.5
"""Share of a margin that may be used up between slices."""
LEAST = 1e-3
"""What may be used up in any case [m]."""


def too_close(terms: Iterable[Term], found: Solution, each: int) -> tuple[Violation, ...]:
    """Return which distances are not kept on straight ways from each slice to the next.

    Between slices half of the margin is enough.

    Args:
        terms: Of the path's problem.
        found: The path.
        each: Slices of a phase.
    """
    distances = [term for term in terms if isinstance(term.objective, Distance)]
    frames = dict.fromkeys(name for term in distances for name in term.objective.frames)
    if not frames:
        return ()
    placed = Kinematics(found.scene, frames).place(between(found))
    violations = []
    for term in distances:
        if term.is_cost or term.order or not isinstance(term.objective, Distance):
            continue
        spared = max(SPARED * term.objective.margin, 0.0) + LEAST
        # Of each slice the parts of the way to it.
        part = slice((PARTS - 1) * term.first, (PARTS - 1) * term.last)
        values, _ = term.objective.evaluate(placed.part(part))
        worst = (values - term.target).max(axis=1, initial=-np.inf)
        number = int(worst.argmax())
        if worst[number] > spared:
            at = term.first + number // (PARTS - 1)
            violations.append(
                Violation(
                    f"{term.name} before it",
                    term.bodies,
                    at // each,
                    at,
                    float(worst[number]),
                    "m",
                )
            )
    return tuple(sorted(violations, key=lambda violation: -violation.amount))


def between(found: Solution) -> Matrix:
    """Return slices between those of a path, from the start on, (T (PARTS - 1), d)."""
    path = np.concatenate([found.scene.start[None], found.path])
    share = np.arange(1, PARTS)[:, None] / PARTS
    way = path[:-1, None] + share * np.diff(path, axis=0)[:, None]
    slices: Matrix = way.reshape(-1, path.shape[1])
    return slices
