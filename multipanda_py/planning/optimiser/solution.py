# SPDX-License-Identifier: Apache-2.0
"""What an optimisation found, and where it falls short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

Ended: TypeAlias = Literal["solved", "contradiction", "iterations", "time"]


@dataclass(frozen=True)
class Violation:
    """One constraint that is not met.

    Attributes:
        objective: Which, by its name and what it is about.
        bodies: Arms and things that it is about.
        phase: In which phase it is worst, from 0.
        slice: In which slice of the path, from 0.
        amount: By how much, in ``unit``: the length of what is missing to a goal, the number that
            is worst of others.
        unit: Of the amount.
    """

    objective: str
    bodies: tuple[str, ...]
    phase: int
    slice: int
    amount: float
    unit: str

    @property
    def missed(self) -> str:
        """Which one by how much."""
        return f"{self.objective} is off by {self.amount:.3g} {self.unit}"

    def __str__(self) -> str:
        return f"{self.missed} in slice {self.slice} (phase {self.phase})"


@dataclass(frozen=True, eq=False)
class Solution:
    """The path that was found, feasible or the best there is.

    Attributes:
        scene: What its numbers mean.
        path: (slices, d), read-only.
        times: Of the slices since the start, (slices,) [s].
        is_feasible: Whether all constraints are met within the tolerance.
        violations: Those that are not, worst first.
        worst: Largest amount by which a constraint is off, met ones included.
        cost: Sum of squares of all costs.
        iterations: Steps of Gauss-Newton.
        ended: ``solved``; ``contradiction``: stiffer constraints came no nearer;
            ``iterations`` or ``time``: a limit was reached.
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

    def posture(self, arm: str) -> Matrix:
        """Return the joint positions of an arm in all slices, (slices, n) [rad, m]."""
        return self.scene.posture(self.path, arm)

    def pose(self, thing: str, number: int = -1) -> Pose:
        """Return where a movable thing is in a slice, by default the last, in the world."""
        return self.scene.pose(self.path[number], thing)

    @property
    def reason(self) -> str:
        """One sentence: what came of it."""
        if self.is_feasible:
            return f"solved in {self.iterations} iterations, cost {self.cost:.4g}"
        why = {
            "contradiction": "the constraints cannot all be met from here",
            "iterations": "the limit of iterations was reached",
            "time": "the limit of time was reached",
            "solved": "",
        }[self.ended]
        return f"{why}: " + "; ".join(str(violation) for violation in self.violations[:3])
