# SPDX-License-Identifier: Apache-2.0
"""Terms of a path problem, and objectives on its variables: limits, smoothness, rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import comb
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.kinematics import Slices
from multipanda_py.planning.optimiser.scene import WORLD_FRAME, Scene
from multipanda_py.state import Matrix, Vector


class Objective(ABC):
    r"""Function of the variables at one time step, which a problem uses as a cost or constraint.

    .. math:: \phi(x_t) \in R^m, \qquad
        \Delta^k \phi_t / \Delta t^k = \Delta t^{-k} \sum_j (-1)^j \binom{k}{j} \phi(x_{t-j}).

    :math:`\phi` has m components. :math:`x_t` are the variables at step t, and :math:`\Delta t` is
    the time between steps. A problem minimises or bounds the difference of order k.

    Attributes:
        order: Order k of the time derivative, 0 by default.
        frames: Names of the frames whose poses are needed.
    """

    order: int = 0
    frames: tuple[str, ...] = ()

    @abstractmethod
    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        r"""Return :math:`\phi` at s time steps, (s, m), and its Jacobian, (s, m, d)."""

    @abstractmethod
    def units(self, scene: Scene) -> tuple[str, ...]:
        r"""Return the units of the components of :math:`\phi`, such as ``rad``, (m,)."""

    def bounds(self, scene: Scene) -> tuple[Vector, Vector] | None:
        """Return lower and upper bounds of the components, (m,) each; None without bounds."""
        return None

    def columns(self, scene: Scene) -> np.ndarray | None:
        """Return the indices of variables that are the components; None for other components."""
        return None

    def check(self, scene: Scene) -> None:
        """Raise an error if a frame or body of the objective is not in the scene."""
        for name in self.frames:
            scene.frame(name)


class SliceNumbers(Objective):
    """Selected variables of a time step as components: joint positions, and poses of objects.

    Args:
        of: Names of the arms and movable objects to select; all by default.
    """

    def __init__(self, *of: str) -> None:
        self.of = of

    def columns(self, scene: Scene) -> np.ndarray:
        names = self.of or tuple(scene.columns)
        return np.concatenate([np.r_[scene.columns[name]] for name in names])

    def units(self, scene: Scene) -> tuple[str, ...]:
        return tuple(scene.units[column] for column in self.columns(scene).tolist())

    def check(self, scene: Scene) -> None:
        for name in self.of:
            scene.known("arm or movable object", name, [*scene.columns])

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return the selected variables, (s, m), and their Jacobian, a selection matrix."""
        columns = self.columns(slices.scene)
        x = slices.x
        selection = np.eye(x.shape[1])[columns]
        return x[:, columns], np.broadcast_to(selection, (len(x), *selection.shape))


Kind: TypeAlias = Literal["cost", "equal", "at_most"]


@dataclass(eq=False)
class Term:
    r"""Scaled difference r of an objective over several time steps, as a cost or constraint.

    .. math:: r_t = s \left(\Delta t^{-k} \sum_j c_j \phi(x_{t-j}) - \phi^*\right).

    Here s is the scale, :math:`\Delta t` the time between steps, k the order, and :math:`\phi^*`
    the target. The :math:`c_j` are the coefficients of the difference.

    Attributes:
        objective: Objective :math:`\phi`.
        name: Name in messages.
        first: Index of the first time step.
        last: Index after the last time step.
        is_cost: True for a cost. Otherwise r is kept between ``lower`` and ``upper``.
        scale: Scale s. For a cost it includes the square root of :math:`\Delta t`.
        target: Target :math:`\phi^*`, (m,) or one number.
        lower: Lower bounds of r, (m,).
        upper: Upper bounds of r, (m,).
        factors: Coefficients :math:`c_j \Delta t^{-k}`, (k + 1,).
        columns: Indices of the variables, if the components of :math:`\phi` are variables
            themselves; None if they are functions of the variables.
        units: Units of the components, (m,).
        bodies: Names of the arms and objects in the term.
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
        """Number of previous time steps on which the term depends."""
        return len(self.factors) - 1

    def evaluate(self, slices: Slices, before: int) -> tuple[Matrix, Matrix | None]:
        """Return the values r at the n time steps of this term, and their Jacobians.

        Args:
            slices: Variables and poses at the start, ``before`` times, then at all time steps of
                the path.
            before: Number of copies of the start, for differences at the first time steps.

        Returns:
            Values r, (n, m). Jacobians, (n, k + 1, m, d); None for a term with ``columns``. Entry
            [t, j] is the derivative of r at step t by the variables at step t - j.
        """
        k, n = self.order, self.last - self.first
        rows = slice(before + self.first - k, before + self.last)
        if self.columns is not None:
            values, jacobian = slices.x[rows, self.columns], None
        else:
            values, jacobian = self.objective.evaluate(slices.part(rows))
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
        """True if the components form one vector, such as a position error."""
        return self.columns is None and self.lower.shape == (1,)

    def outside(self, residual: Matrix) -> Matrix:
        """Return the deviation of r above (+) or below (-) its bounds; 0 within them."""
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
    """Create a term of an objective.

    Args:
        scene: Scene of the problem.
        objective: Objective of the term.
        kind: Kind of the term, see :meth:`.Problem.add`.
        slices: Index of the first time step, and index after the last one.
        period: Time between steps [s].
        scale: Positive factor of the components.
        target: Value to subtract from the components.
        order: Order of the time derivative; that of the objective by default.
    """
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
    bodies = [name for name in dict.fromkeys(named) if name != WORLD_FRAME] or [*scene.columns]
    rate = ("", "/s", "/s^2", "/s^3")[k]
    return Term(
        objective, f"{name}({' '.join(about)})", *slices, is_cost, scale,
        np.asarray(target, dtype=float), low, high, factors, objective.columns(scene),
        tuple(unit + rate for unit in objective.units(scene)), tuple(bodies),
    )  # fmt: skip


class WithinLimits(SliceNumbers):
    """Joint positions within their limits [rad, m].

    Args:
        of: Names of arms; all by default.
        margin: Distance that joints keep from their limits [rad, m].
    """

    def __init__(self, *of: str, margin: float = 0.0) -> None:
        super().__init__(*of)
        self.margin = margin

    def columns(self, scene: Scene) -> np.ndarray:
        columns = super().columns(scene)
        limited: np.ndarray = columns[np.isfinite(scene.velocity[columns])]
        return limited

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        columns = self.columns(scene)
        return scene.lower[columns] + self.margin, scene.upper[columns] - self.margin


class VelocityLimits(WithinLimits):
    """Joint speeds within a fraction of their limits [rad/s, m/s].

    Args:
        of: Names of arms; all by default.
        fraction: Fraction of the limits, above 0 and up to 1.

    Raises:
        PlanRejected: If the fraction is out of range.
    """

    order = 1

    def __init__(self, *of: str, fraction: float = 1.0) -> None:
        super().__init__(*of)
        if not 0.0 < fraction <= 1.0:
            raise PlanRejected(f"fraction of limits: got {fraction}, allowed 0 < fraction <= 1")
        self.share = fraction

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        max_value = self.share * self._limits(scene)[self.columns(scene)]
        return -max_value, max_value

    def _limits(self, scene: Scene) -> Vector:
        return scene.velocity


class AccelerationLimits(VelocityLimits):
    """Joint accelerations within a fraction of their limits [rad/s^2, m/s^2]."""

    order = 2

    def _limits(self, scene: Scene) -> Vector:
        return scene.acceleration


class Smoothness(SliceNumbers):
    r"""Cost of time derivatives of the variables, :math:`\int |d^k x / dt^k|^2 dt`.

    Args:
        of: Names of arms and movable objects; all by default.
        order: Order k: 1 for velocity, 2 for acceleration, 3 for jerk.

    Raises:
        PlanRejected: If the order is out of range.
    """

    def __init__(self, *of: str, order: int = 2) -> None:
        super().__init__(*of)
        if order not in (1, 2, 3):
            raise PlanRejected(f"order of smoothness: got {order}, allowed 1, 2 or 3")
        self.order = order


class Rest(SliceNumbers):
    """Zero velocity of arms or objects [rad/s, m/s]."""

    order = 1


class Near(SliceNumbers):
    """Goal for the joint configuration of an arm, or the pose variables of an object [rad, m].

    Args:
        of: Name of an arm or movable object.
        numbers: Desired variables. For an arm, joint positions, (n,) [rad, m]. For an object,
            position [m], then rotation vector relative to its initial orientation [rad], (6,).
    """

    def __init__(self, of: str, numbers: ArrayLike) -> None:
        super().__init__(of)
        self._goal: Vector = np.array(numbers, dtype=np.float64)

    def check(self, scene: Scene) -> None:
        super().check(scene)
        shape = self.columns(scene).shape
        if self._goal.shape != shape or not np.isfinite(self._goal).all():
            raise PlanRejected(
                f"configuration of {self.of[0]}: got {self._goal.tolist()}, allowed {shape[0]} "
                "finite numbers"
            )

    def bounds(self, scene: Scene) -> tuple[Vector, Vector]:
        return self._goal, self._goal
