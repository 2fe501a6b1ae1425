# SPDX-License-Identifier: Apache-2.0
"""How a path moves: within limits, smoothly, to rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import comb
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.kinematics import Slices
from multipanda_py.planning.optimiser.scene import WORLD, Scene
from multipanda_py.state import Matrix, Vector


class Objective(ABC):
    r"""Give numbers in every slice, and how they change with it.

    .. math:: \phi(x_t) \in R^m, \qquad
        \Delta^k \phi_t / \Delta t^k = \Delta t^{-k} \sum_j (-1)^j \binom{k}{j} \phi(x_{t-j})

    A problem makes a cost of the difference of order k, or keeps it between bounds.

    Attributes:
        order: The k of an objective that is about a rate, by default 0.
        frames: Names of the frames whose places it needs.
    """

    order: int = 0
    frames: tuple[str, ...] = ()

    @abstractmethod
    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        r"""Return :math:`\phi`, (s, m), and :math:`\partial \phi / \partial x`, (s, m, d)."""

    @abstractmethod
    def units(self, scene: Scene) -> tuple[str, ...]:
        r"""Return the units of :math:`\phi`, (m,), such as m and rad."""

    def bounds(self, scene: Scene) -> tuple[Vector, Vector] | None:
        """Return what the numbers are to be between, (m,) each, or None for a target of zero."""
        return None

    def columns(self, scene: Scene) -> np.ndarray | None:
        """Return which numbers of a slice the objective's are, where they are just these."""
        return None

    def check(self, scene: Scene) -> None:
        """Refuse what the scene does not have."""
        for name in self.frames:
            scene.frame(name)


class SliceNumbers(Objective):
    """Numbers of a slice as they are: joints of arms, places of things.

    Args:
        of: Names of arms and movable things; by default all.
    """

    def __init__(self, *of: str) -> None:
        self.of = of

    def columns(self, scene: Scene) -> np.ndarray:
        """Return their places in a slice."""
        names = self.of or tuple(scene.columns)
        return np.concatenate([np.r_[scene.columns[name]] for name in names])

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return the units of joints, and of places of things."""
        return tuple(scene.units[column] for column in self.columns(scene).tolist())

    def check(self, scene: Scene) -> None:
        """Refuse names that the scene has no numbers for."""
        for name in self.of:
            scene.known("arm or movable thing", name, [*scene.columns])

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the numbers, and which they are."""
        columns = self.columns(slices.scene)
        x = slices.x
        selection = np.eye(x.shape[1])[columns]
        return x[:, columns], np.broadcast_to(selection, (len(x), *selection.shape))


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


class WithinLimits(SliceNumbers):
    """Keep joints within their limits [rad, m].

    Args:
        of: Names of arms; by default all.
        margin: From the limits [rad, m].
    """

    def __init__(self, *of: str, margin: float = 0.0) -> None:
        super().__init__(*of)
        self.margin = margin

    def columns(self, scene: Scene) -> np.ndarray:
        """Return the places of the joints that have limits."""
        columns = super().columns(scene)
        limited: np.ndarray = columns[np.isfinite(scene.velocity[columns])]
        return limited

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        """Return the limits of positions."""
        columns = self.columns(scene)
        return scene.lower[columns] + self.margin, scene.upper[columns] - self.margin


class VelocityLimits(WithinLimits):
    """Keep speeds of joints within a share of their limits [rad/s, m/s].

    Args:
        of: Names of arms; by default all.
        share: Of the limits, above 0, at most 1.

    Raises:
        PlanRejected: If the share is none.
    """

    order = 1

    def __init__(self, *of: str, share: float = 1.0) -> None:
        super().__init__(*of)
        if not 0.0 < share <= 1.0:
            raise PlanRejected(f"share of limits: got {share}, allowed above 0, at most 1")
        self.share = share

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        """Return the limits of speed."""
        most = self.share * self._limits(scene)[self.columns(scene)]
        return -most, most

    def _limits(self, scene: Scene) -> Vector:
        return scene.velocity


class AccelerationLimits(VelocityLimits):
    """Keep accelerations of joints within a share of their limits [rad/s^2, m/s^2]."""

    order = 2

    def _limits(self, scene: Scene) -> Vector:
        return scene.acceleration


class Smoothness(SliceNumbers):
    r"""Ask for small rates, :math:`\int |d^k x / dt^k|^2 dt` as a cost.

    Args:
        of: Names of arms and movable things; by default all.
        order: k, 1 to 3: velocity, acceleration or jerk.

    Raises:
        PlanRejected: If the order is another.
    """

    def __init__(self, *of: str, order: int = 2) -> None:
        super().__init__(*of)
        if order not in (1, 2, 3):
            raise PlanRejected(f"order of smoothness: got {order}, allowed 1, 2 or 3")
        self.order = order


class Rest(SliceNumbers):
    """Ask for no velocity: arms that stop, a thing that nobody moves [rad/s, m/s]."""

    order = 1


class Near(SliceNumbers):
    """Ask for a posture of an arm, or what else its numbers are [rad, m].

    Args:
        of: Name of an arm or movable thing.
        numbers: Where they are to be, as in a slice.
    """

    def __init__(self, of: str, numbers: ArrayLike) -> None:
        super().__init__(of)
        self._goal: Vector = np.array(numbers, dtype=np.float64)

    def check(self, scene: Scene) -> None:
        """Refuse another number of them, or what is not finite."""
        super().check(scene)
        shape = self.columns(scene).shape
        if self._goal.shape != shape or not np.isfinite(self._goal).all():
            raise PlanRejected(
                f"posture of {self.of[0]}: got {self._goal.tolist()}, allowed {shape[0]} finite "
                "numbers"
            )

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        """Return the goal, twice."""
        return self._goal, self._goal
