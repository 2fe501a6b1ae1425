# SPDX-License-Identifier: Apache-2.0
"""Augmented Lagrangian solver with damped Gauss-Newton steps, for paths, and its solution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.term import Term
from multipanda_py.pose import Pose
from multipanda_py.registry import needed
from multipanda_py.state import Matrix, Vector

Ended: TypeAlias = Literal["solved", "contradiction", "iterations", "time"]


@dataclass(frozen=True)
class Violation:
    """One violated constraint.

    Attributes:
        objective: Name of the objective with its frames or bodies.
        bodies: Names of the arms and objects in the constraint.
        phase: Index of the phase with the largest violation.
        step: Index of the time step with the largest violation.
        amount: Amount of the violation in ``unit``: norm of a vector error, or the largest
            component.
        unit: Unit of the amount.
    """

    objective: str
    bodies: tuple[str, ...]
    phase: int
    step: int
    amount: float
    unit: str

    @property
    def missed(self) -> str:
        """Text with the objective and the amount of its violation."""
        return f"{self.objective} is off by {self.amount:.3g} {self.unit}"

    def __str__(self) -> str:
        return f"{self.missed} at time step {self.step} (phase {self.phase})"


@dataclass(frozen=True, eq=False)
class Solution:
    """Path that was found: feasible, or with the smallest violation.

    Attributes:
        scene: Scene, which defines the d variables.
        path: Variables at s time steps, (s, d), read-only.
        times: Times of these steps since the start, (s,) [s].
        is_feasible: True if all constraints are met within the tolerance.
        violations: Violated constraints, the largest first.
        worst: Largest error of a constraint in the unit of its objective, even if tolerated.
        cost: Sum of squares of all costs.
        iterations: Number of Gauss-Newton steps.
        ended: ``solved``; ``contradiction`` if violations stay despite the maximum penalty;
            ``iterations`` or ``time`` if this limit was reached.
    """

    scene: Scene
    path: Matrix
    times: Vector
    is_feasible: bool
    violations: tuple[Violation, ...]
    worst: float
    cost: float
    iterations: int
    ended: Ended

    def arm_configuration(self, arm: str) -> Matrix:
        """Return the joint positions of an arm at all s time steps, (s, n) [rad, m]."""
        return self.scene.arm_configuration(self.path, arm)

    def pose(self, object_name: str, number: int = -1) -> Pose:
        """Return the pose of a movable object in the world.

        Args:
            object_name: Name of the object.
            number: Index of the time step; -1 for the last one.
        """
        return self.scene.pose(self.path[number], object_name)

    @property
    def reason(self) -> str:
        """Summary of the result in one sentence."""
        if self.is_feasible:
            return f"solved in {self.iterations} iterations, cost {self.cost:.4g}"
        reason = {
            "contradiction": "the constraints cannot all be met from this start",
            "iterations": "the maximum number of iterations was reached",
            "time": "the time limit was reached",
            "solved": "",
        }[self.ended]
        return f"{reason}: " + "; ".join(str(violation) for violation in self.violations[:3])


def processor_time() -> float:
    """Return the processor time of the calling thread [s]."""
    return time.thread_time()


class NormalEquations:
    r"""Normal equations :math:`H = \sum J^T W J`, :math:`g = \sum J^T W r` of a path.

    The sums are over all terms, with their Jacobians J, weights W and residuals r. Blocks of H on
    and below the diagonal are stored: [t, o] is the block of time steps t and t - o.

    Args:
        slices: Number of time steps, T.
        size: Number of variables at a time step, d.
        order: Maximum number of previous time steps on which a term depends.
    """

    def __init__(self, slices: int, size: int, order: int) -> None:
        self._order = order
        self.blocks = np.zeros((slices, order + 1, size, size))
        self.gradient = np.zeros((slices, size))
        self._cholesky = needed("scipy.linalg").solveh_banded
        self._error = needed("scipy.linalg").LinAlgError
        band = size * (order + 1)
        t, o, a, b = np.indices(self.blocks.shape)
        below = (o * size + a - b >= 0) & (t >= o)
        row, column = (o * size + a - b)[below], ((t - o) * size + b)[below]
        self._from = np.flatnonzero(below)
        self._to = row * (slices * size) + column
        self._banded = np.zeros((band, slices * size))

    def clear(self) -> None:
        self.blocks[:], self.gradient[:] = 0.0, 0.0

    def add(self, term: Term, residual: Matrix, jacobian: Matrix | None, weight: Matrix) -> None:
        """Add a term of n time steps and m components to H and g.

        Args:
            term: Term to add.
            residual: Residuals r, (n, m).
            jacobian: Jacobian J. None if the components are variables themselves.
            weight: Weights W of the residuals, (n, m).
        """
        weighted = weight * residual
        k = term.order
        for j in range(k + 1):
            # Time steps before the start of the path have no variables, so they are skipped.
            skip = max(0, j - term.first)
            rows = slice(term.first + skip - j, term.last - j)
            if term.columns is not None:
                factor = term.scale * term.factors[j]
                self.gradient[rows, term.columns] += factor * weighted[skip:]
            elif jacobian is not None:
                own = jacobian[skip:, j].transpose(0, 2, 1)
                self.gradient[rows] += (own @ weighted[skip:, :, None])[..., 0]
            for i in range(j, k + 1):
                skip_both = max(0, i - term.first)
                both = slice(term.first + skip_both - j, term.last - j)
                if term.columns is not None:
                    factor = term.scale**2 * term.factors[j] * term.factors[i]
                    at = term.columns
                    self.blocks[both, i - j, at, at] += factor * weight[skip_both:]
                elif jacobian is not None:
                    left = jacobian[skip_both:, j].transpose(0, 2, 1)
                    right = weight[skip_both:, :, None] * jacobian[skip_both:, i]
                    self.blocks[both, i - j] += left @ right

    def solve(self, damping: float) -> Matrix | None:
        r"""Solve :math:`(H + \lambda I) s = -g` and return s, (T, d); None if singular.

        Args:
            damping: Damping :math:`\lambda`.
        """
        banded = self._banded
        banded.reshape(-1)[self._to] = self.blocks.reshape(-1)[self._from]
        banded[0] += damping
        gradient: Vector = self.gradient.reshape(-1)
        try:
            step: Matrix = self._cholesky(banded, -gradient, lower=True, check_finite=False)
        except self._error:
            return None
        return step.reshape(self.gradient.shape) if np.isfinite(step).all() else None


@dataclass(frozen=True)
class SolverSettings:
    """Tolerances and limits of a search.

    Attributes:
        violation: Tolerance of a constraint, in its own unit.
        step: Gauss-Newton step below which a path has converged [rad, m]. A smaller value gives
            more exact costs.
        iterations: Maximum number of Gauss-Newton steps.
        time: Maximum processor time of the searching thread [s]. Results depend on the machine if
            a search reaches it.
    """

    violation: float = 1e-4
    step: float = 1e-2
    iterations: int = 150
    time: float = 0.5


INITIAL_PENALTY = 1e3
"""Initial penalty of a squared violation, relative to costs of about 1."""
PENALTY_FACTOR = 10.0
"""Factor that increases the penalty if violations decrease too slowly."""
MAX_PENALTY = 1e7
"""Maximum penalty of a squared violation, relative to costs of about 1."""
MAX_STEP = 0.5
"""Maximum change of a variable per Gauss-Newton step [rad, m]."""
MIN_DECREASE = 0.1
"""Minimum relative decrease of the augmented Lagrangian per Gauss-Newton step, divided by the
setting ``step``. After a smaller decrease, or a shorter step, the multipliers are updated."""
MAX_STALLED_ROUNDS = 3
"""Number of multiplier updates without progress after which constraints count as contradictory."""


@dataclass(eq=False)
class _Iterate:
    """Iterate of the solver: a path, and the values of all costs and constraints for it."""

    path: Matrix
    values: list[tuple[Matrix, Matrix | None]]


@dataclass(eq=False)
class _PathSearch:
    """State of one run of the solver: kinematics, terms, multipliers and penalty."""

    scene: Scene
    terms: Sequence[Term]
    slices: int
    penalty: float = INITIAL_PENALTY
    multipliers: list[Matrix] = field(default_factory=list)

    def __post_init__(self) -> None:
        order = max(term.order for term in self.terms)
        self.before = np.tile(self.scene.start, (order, 1))
        frames = dict.fromkeys(name for term in self.terms for name in term.objective.frames)
        self.kinematics = Kinematics(self.scene, frames)
        self.equations = NormalEquations(self.slices, self.scene.size, order)

    def evaluate(self, path: Matrix) -> _Iterate:
        slices = self.kinematics.forward_kinematics(np.concatenate([self.before, path]))
        before = len(self.before)
        return _Iterate(path, [term.evaluate(slices, before) for term in self.terms])

    def pushes(self, point: _Iterate) -> list[Matrix]:
        """Return the residuals of costs, and the shifted bound violations of constraints."""
        pushes = []
        for number, (term, (residual, _)) in enumerate(zip(self.terms, point.values)):
            if not term.is_cost:
                residual = term.outside(residual + self.multipliers[number] / self.penalty)
            pushes.append(residual)
        return pushes

    def value(self, point: _Iterate) -> float:
        return 0.5 * sum(
            (1.0 if term.is_cost else self.penalty) * float(np.vdot(push, push))
            for term, push in zip(self.terms, self.pushes(point))
        )

    def step(self, point: _Iterate, damping: float) -> tuple[Matrix | None, Matrix]:
        """Return the Gauss-Newton step (None if singular) and the gradient, (T, d) each."""
        equations = self.equations
        equations.clear()
        for term, push, (_, jacobian) in zip(self.terms, self.pushes(point), point.values):
            weight = 1.0 if term.is_cost else self.penalty * (push != 0.0)
            equations.add(term, push, jacobian, weight * np.ones_like(push))
        return equations.solve(damping), equations.gradient

    def start(self, point: _Iterate) -> None:
        self.multipliers = [np.zeros_like(residual) for residual, _ in point.values]

    def violation(self, point: _Iterate) -> float:
        return max(
            (
                float(np.abs(term.outside(residual)).max(initial=0.0)) / term.scale
                for term, (residual, _) in zip(self.terms, point.values)
                if not term.is_cost
            ),
            default=0.0,
        )

    def update_multipliers(self, point: _Iterate, factor: float) -> None:
        for number, (term, push) in enumerate(zip(self.terms, self.pushes(point))):
            if not term.is_cost:
                self.multipliers[number] = self.penalty * push
        self.penalty = min(self.penalty * factor, MAX_PENALTY)


def solve(
    scene: Scene,
    terms: Sequence[Term],
    path: Matrix,
    period: float,
    each: int,
    settings: SolverSettings,
) -> Solution:
    r"""Minimise costs with constraints.

    .. math::
        \min_x \frac{1}{2} \sum r_c^2 + \frac{\mu}{2} \sum
        \left(r + \frac{\lambda}{\mu} - [r + \frac{\lambda}{\mu}]_l^u\right)^2.

    :math:`r_c` are the residuals of costs, r those of constraints, and :math:`[\,]_l^u` clips them
    to their bounds. Gauss-Newton steps alternate with updates of the multipliers :math:`\lambda`
    and the penalty :math:`\mu`.

    Args:
        scene: Scene, which defines the d variables.
        terms: Costs and constraints.
        path: Initial path of T time steps, (T, d).
        period: Time between these steps [s].
        each: Number of time steps of a phase.
        settings: Tolerances and limits.
    """
    until = processor_time() + settings.time
    search = _PathSearch(scene, terms, len(path))
    point = search.evaluate(path)
    search.start(point)
    damping, stuck, iterations = 1e-6, 0, 0
    best = before = np.inf
    ended: Ended = "iterations"
    while iterations < settings.iterations:
        if processor_time() > until:
            ended = "time"
            break
        iterations += 1
        value = search.value(point)
        point, moved, damping = _line_search_step(search, point, damping)
        # Long steps continue only while they decrease the value. If a goal is unreachable, steps
        # stay long without a decrease.
        if (
            moved > settings.step
            and value - search.value(point) > MIN_DECREASE * settings.step * value
        ):
            continue
        violation = search.violation(point)
        if violation < settings.violation:
            ended = "solved"
            break
        stuck = stuck + 1 if violation > 0.7 * best else 0
        if stuck > MAX_STALLED_ROUNDS and search.penalty >= MAX_PENALTY:
            ended = "contradiction"
            break
        best = min(best, violation)
        search.update_multipliers(point, PENALTY_FACTOR if violation > 0.1 * before else 1.0)
        before = violation
    return _solution(search, point, period, each, settings, iterations, ended)


def _line_search_step(
    search: _PathSearch, point: _Iterate, damping: float
) -> tuple[_Iterate, float, float]:
    """Return the next iterate, the largest change of a variable, and the next damping."""
    value = search.value(point)
    for _ in range(8):
        step, gradient = search.step(point, damping)
        if step is None:
            damping = max(10.0 * damping, 1e-6)
            continue
        step *= min(1.0, MAX_STEP / max(float(np.abs(step).max()), 1e-12))
        slope = float(np.vdot(gradient, step))
        step_scale = 1.0
        while step_scale > 0.05:
            trial = search.evaluate(point.path + step_scale * step)
            if search.value(trial) <= value + 1e-3 * step_scale * slope:
                calmer = max(0.2 * damping, 1e-6) if step_scale == 1.0 else damping
                return trial, step_scale * float(np.abs(step).max()), calmer
            if step_scale * float(np.abs(step).max()) < 1e-7:
                return point, 0.0, damping
            step_scale *= 0.4
        damping = max(100.0 * damping, 1e-2)
    return point, 0.0, 1e-6


def _solution(
    search: _PathSearch, point: _Iterate, period: float, each: int, settings: SolverSettings,
    iterations: int, ended: Ended,
) -> Solution:  # fmt: skip
    violations = []
    cost = 0.0
    for term, (residual, _) in zip(search.terms, point.values):
        if term.is_cost:
            cost += float(np.vdot(residual, residual))
            continue
        violations += _violations_by_unit(term, residual, each, settings.violation)
    violations.sort(key=lambda violation: -violation.amount)
    path = point.path
    path.flags.writeable = False
    return Solution(
        search.scene, path, period * np.arange(1.0, len(path) + 1.0), not violations,
        tuple(violations), search.violation(point), cost, iterations,
        ended if violations else "solved",
    )  # fmt: skip


def _violations_by_unit(
    term: Term, residual: Matrix, steps_per_phase: int, tolerance: float
) -> list[Violation]:
    off = np.abs(term.outside(residual)) / term.scale
    violations = []
    for unit in dict.fromkeys(term.units):
        own = off[:, [at for at, other in enumerate(term.units) if other == unit]]
        step, _ = np.unravel_index(int(own.argmax()), own.shape)
        if own[step].max() <= tolerance:
            continue
        amount = np.linalg.norm(own[step]) if term.is_vector else own[step].max()
        at = term.first + int(step)
        violations.append(
            Violation(term.name, term.bodies, at // steps_per_phase, at, float(amount), unit)
        )
    return violations
