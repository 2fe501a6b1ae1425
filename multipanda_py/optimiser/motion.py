# SPDX-License-Identifier: Apache-2.0
"""How a path moves: within limits, smoothly, to rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.exceptions import PlanRejected
from multipanda_py.optimiser.objective import SliceNumbers
from multipanda_py.optimiser.scene import Scene
from multipanda_py.state import Vector


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
