# SPDX-License-Identifier: Apache-2.0
"""Path optimisation problem: phases, time steps (slices), costs and constraints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.planning.optimiser.distance import Distance
from multipanda_py.planning.optimiser.kinematics import Kinematics
from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.planning.optimiser.solver import Solution, SolverSettings, solve
from multipanda_py.planning.optimiser.term import Kind, Objective, Term, make_term
from multipanda_py.state import Matrix

MAX_TIME_STEPS = 2000
"""Maximum number of time steps (slices) of one path."""


class Problem:
    """Path optimisation problem with its costs and constraints.

    A path consists of phases, and a phase of slices (time steps). A slice has the variables of all
    arms and movable objects, see :class:`.Scene`. The path starts at rest at ``scene.start``,
    time 0. Slice 0 is at the time ``period``.

    Args:
        scene: Arms and objects.
        phases: Number of phases.
        slices_per_phase: Number of slices of each phase.
        duration: Duration of each phase [s].

    Attributes:
        slices: Number of all slices, T.
        each: Number of slices of a phase.
        period: Time between slices [s].
        terms: Costs and constraints.

    Raises:
        PlanRejected: If a number is out of range.
    """

    def __init__(
        self, scene: Scene, phases: int = 1, slices_per_phase: int = 10, duration: float = 5.0
    ) -> None:
        slices = phases * slices_per_phase
        if phases < 1 or slices_per_phase < 1 or slices > MAX_TIME_STEPS:
            raise PlanRejected(
                f"slices: got {phases} phases of {slices_per_phase}, allowed 1 to "
                f"{MAX_TIME_STEPS} "
                "in total"
            )
        if not (math.isfinite(duration) and duration > 0.0):
            raise PlanRejected(f"duration of a phase: got {duration} s, allowed > 0")
        self.scene, self.phases, self.each = scene, phases, slices_per_phase
        self.slices, self.period = slices, duration / slices_per_phase
        self.terms: list[Term] = []
        self._objectives: list[tuple[Objective, Kind, dict[str, Any]]] = []

    def add(
        self,
        objective: Objective,
        kind: Kind = "equal",
        *,
        phases: tuple[float, float] | None = None,
        at: float | None = None,
        scale: float = 1.0,
        target: ArrayLike = 0.0,
        order: int | None = None,
    ) -> Problem:
        """Add a cost or constraint and return the problem.

        Args:
            objective: Objective of the term.
            kind: ``cost`` minimises the squared value; ``equal`` keeps it zero, or within the
                bounds of the objective; ``at_most`` keeps it <= 0.
            phases: Start and end of the term, in phases. (0, 1) is the first phase. All phases by
                default.
            at: Time of a single time step in phases, instead of a range. For example, 1 is the
                end of the first phase.
            scale: Positive factor of the components.
            target: Value to subtract from the components.
            order: Order of the time derivative, 0 to 3; that of the objective by default.

        Raises:
            PlanRejected: If an argument is invalid.
            UnknownName: If a frame or body of the objective is not in the scene.
        """
        if kind not in ("cost", "equal", "at_most"):
            raise PlanRejected(f"kind: got {kind!r}, allowed 'cost', 'equal' or 'at_most'")
        if not (math.isfinite(scale) and scale > 0.0):
            raise PlanRejected(f"scale: got {scale}, allowed > 0")
        if order not in (None, 0, 1, 2, 3):
            raise PlanRejected(f"order: got {order}, allowed 0 to 3")
        aim = np.asarray(target, dtype=np.float64)
        if not np.isfinite(aim).all():
            raise PlanRejected(f"target: got {target!r:.60}, allowed finite numbers")
        objective.check(self.scene)
        first, last = self._range(phases, at)
        term_options = {"phases": phases, "at": at, "scale": scale, "target": aim, "order": order}
        self._objectives.append((objective, kind, term_options))
        self.terms.append(
            make_term(self.scene, objective, kind, (first, last), self.period, scale, aim, order)
        )
        return self

    def finer(self) -> Problem:
        """Return the same problem with twice the time steps.

        Raises:
            PlanRejected: If the number of time steps exceeds ``MAX_TIME_STEPS``.
        """
        finer = Problem(self.scene, self.phases, 2 * self.each, self.each * self.period)
        for objective, kind, term_options in self._objectives:
            finer.add(objective, kind, **term_options)
        return finer

    def without_far(self, path: Matrix) -> Problem:
        """Return the problem without distance constraints of bodies far apart along a path."""
        near = Problem(self.scene, self.phases, self.each, self.each * self.period)
        selected = [term.objective for term in self.terms if isinstance(term.objective, Distance)]
        frames = dict.fromkeys(name for one in selected for name in one.frames)
        placed = Kinematics(self.scene, frames).forward_kinematics(path)
        for term in self.terms:
            one = term.objective
            if not isinstance(one, Distance) or one.is_near(
                placed.part(slice(term.first, term.last))
            ):
                near.terms.append(term)
        return near

    def _range(self, phases: tuple[float, float] | None, at: float | None) -> tuple[int, int]:
        if phases is not None and at is not None:
            raise PlanRejected("phases, at: got both, allowed one of them")
        if at is not None:
            last = self._slice("at", at)
            if last < 1:
                raise PlanRejected(
                    f"at: got {at}, allowed {1.0 / self.each:g} (first time step) to {self.phases}"
                )
            return last - 1, last
        start, end = (0.0, float(self.phases)) if phases is None else phases
        first, last = self._slice("phases", start), self._slice("phases", end)
        if first >= last:
            raise PlanRejected(
                f"phases: got {phases}, allowed an end at least one time step "
                f"({1.0 / self.each:g}) after the start"
            )
        return first, last

    def _slice(self, argument: str, phase: float) -> int:
        if not 0.0 <= phase <= self.phases:
            raise PlanRejected(f"{argument}: got {phase}, allowed 0 to {self.phases}")
        return round(phase * self.each)

    def solve(
        self, settings: SolverSettings | None = None, *, start: ArrayLike | None = None
    ) -> Solution:
        """Solve the problem.

        Args:
            settings: Tolerances and limits.
            start: Initial path of the search, (T, d), such as that of a similar problem. By
                default all time steps are at ``scene.start``.

        Raises:
            PlanRejected: If the initial path has another shape or is not finite, or the problem
                has no terms.
            MissingExtra: If scipy is not installed.

        Thread: any; it takes up to ``settings.time`` seconds of processor time.
        """
        if not self.terms:
            raise PlanRejected("problem: has no costs or constraints. Call add first")
        path: Matrix = np.tile(self.scene.start, (self.slices, 1))
        if start is not None:
            initial = np.asarray(start, dtype=np.float64)
            if initial.shape != path.shape or not np.isfinite(initial).all():
                raise PlanRejected(
                    f"start: got shape {initial.shape}, allowed {path.shape} finite numbers"
                )
            path = initial.copy()
        return solve(
            self.scene, self.terms, path, self.period, self.each, settings or SolverSettings()
        )
