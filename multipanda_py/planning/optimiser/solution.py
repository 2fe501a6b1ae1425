# SPDX-License-Identifier: Apache-2.0
"""Result of an optimisation, with its violated constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from multipanda_py.planning.optimiser.scene import Scene
from multipanda_py.pose import Pose
from multipanda_py.state import Matrix, Vector

Ended: TypeAlias = Literal["solved", "contradiction", "iterations", "time"]


@dataclass(frozen=True)
class Violation:
    """One violated constraint.

    Attributes:
        objective: Name of the objective with its frames or bodies.
        bodies: Names of the arms and objects concerned.
        phase: Index of the phase with the largest violation.
        step: Index of the slice of the path with the largest violation.
        amount: Amount of the violation in ``unit``. Norm of the error for a goal, otherwise the
            largest component.
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
        return f"{self.missed} in slice {self.step} (phase {self.phase})"


@dataclass(frozen=True, eq=False)
class Solution:
    """Path that was found: feasible, or with the smallest violation.

    Attributes:
        scene: Scene, which defines the variables of a slice.
        path: Path, (slices, d), read-only.
        times: Times of the slices since the start, (slices,) [s].
        is_feasible: True if all constraints are met within the tolerance.
        violations: Violated constraints, the largest first.
        worst: Largest error of a constraint in the unit of its objective, also within the
            tolerance.
        cost: Sum of squares of all costs.
        iterations: Number of Gauss-Newton steps.
        ended: ``solved``; ``contradiction`` if higher penalties reduced no violation;
            ``iterations`` or ``time`` if a limit was reached.
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
        """Return the pose of a movable object in the world.

        Args:
            thing: Name of the object.
            number: Number of the slice; -1 for the last one.
        """
        return self.scene.pose(self.path[number], thing)

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
