# SPDX-License-Identifier: Apache-2.0
"""One objective over some slices of a path, as the solver sees it."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb
from typing import Literal, TypeAlias

import numpy as np

from multipanda_py.optimiser.kinematics import Slices
from multipanda_py.optimiser.objective import Objective
from multipanda_py.optimiser.scene import WORLD, Scene
from multipanda_py.state import Matrix, Vector

Kind: TypeAlias = Literal["cost", "equal", "at_most"]


@dataclass(eq=False)
class Term:
    r"""Scaled differences of an objective, a cost or between bounds.

    .. math:: r_t = s \left(\Delta t^{-k} \sum_j c_j \phi(x_{t-j}) - \phi^*\right)

    Attributes:
        objective: What it is about.
        name: For sentences.
        first: Number of its first slice, from 0.
        last: One after the last.
        is_cost: Whether it is a cost; else r is kept from ``lower`` to ``upper``.
        scale: s; of a cost with the square root of the slice's time in it.
        target: What is taken off, (m,) or one number.
        lower: Of r, (m,).
        upper: Of r, (m,).
        factors: :math:`c_j \Delta t^{-k}`, (k + 1,).
        columns: Which numbers of a slice it is about, if it is about just these.
        units: Of its numbers, (m,).
        bodies: Arms and things that it is about.
    """

    objective: Objective
    name: str
    first: int
    last: int
    is_cost: bool
    scale: float
    target: Vector
    lower: Vector
    upper: Vector
    factors: Vector
    columns: np.ndarray | None
    units: tuple[str, ...]
    bodies: tuple[str, ...]

    @property
    def order(self) -> int:
        """How many slices before its own it looks at."""
        return len(self.factors) - 1

    def evaluate(self, slices: Slices, before: int) -> tuple[Matrix, Matrix | None]:
        """Return r, (n, m), and what each slice that it looks at does to it.

        Args:
            slices: All of the path, with ``before`` slices ahead of it.
            before: How many.

        Returns:
            r, and the Jacobians (n, k + 1, m, d) for x of the slice, the one before and so on;
            None for a term of ``columns``, whose Jacobian is ``scale factors``.
        """
        k, n = self.order, self.last - self.first
        seen = slice(before + self.first - k, before + self.last)
        if self.columns is not None:
            values, jacobian = slices.x[seen, self.columns], None
        else:
            values, jacobian = self.objective.evaluate(slices.part(seen))
        residual = sum(c * values[k - j : k - j + n] for j, c in enumerate(self.factors))
        residual = self.scale * (residual - self.target)
        if jacobian is None:
            return residual, None
        blocks = np.stack(
            [(self.scale * c) * jacobian[k - j : k - j + n] for j, c in enumerate(self.factors)], 1
        )
        return residual, blocks

    @property
    def is_vector(self) -> bool:
        """Whether its numbers are parts of one: of a place or a turn that is missed."""
        return self.columns is None and self.lower.shape == (1,)

    def outside(self, residual: Matrix) -> Matrix:
        """Return by how much r is above (+) or below (-) its bounds."""
        outside: Matrix = residual - np.clip(residual, self.lower, self.upper)
        return outside


def make_term(
    scene: Scene,
    objective: Objective,
    kind: Kind,
    slices: tuple[int, int],
    period: float,
    scale: float = 1.0,
    target: Vector | float = 0.0,
    order: int | None = None,
) -> Term:
    """Return an objective over slices of a path with a time between them [s]."""
    k = objective.order if order is None else order
    bounds = objective.bounds(scene)
    is_cost = kind == "cost"
    if is_cost:
        low = high = np.zeros(1)
        scale = scale * float(np.sqrt(period))
        if bounds is not None:
            target = target + 0.5 * (bounds[0] + bounds[1])
    elif bounds is not None:
        low, high = scale * bounds[0], scale * bounds[1]
    else:
        low = np.full(1, -np.inf if kind == "at_most" else 0.0)
        high = np.zeros(1)
    factors = np.array([(-1.0) ** j * comb(k, j) / period**k for j in range(k + 1)])
    name = type(objective).__name__
    about = getattr(objective, "of", objective.frames)
    named = about if hasattr(objective, "of") else [scene.body(frame) for frame in about]
    bodies = [name for name in dict.fromkeys(named) if name != WORLD] or [*scene.columns]
    rate = ("", "/s", "/s^2", "/s^3")[k]
    return Term(
        objective, f"{name}({' '.join(about)})", *slices, is_cost, scale,
        np.asarray(target, dtype=float), low, high, factors, objective.columns(scene),
        tuple(unit + rate for unit in objective.units(scene)), tuple(bodies),
    )  # fmt: skip
