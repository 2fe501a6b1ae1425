# SPDX-License-Identifier: Apache-2.0
"""How fast commands move something, over gaps where commands were lost, and whether they may."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.fci_sim.world import PERIOD

Vector = NDArray[np.float64]

_ROUNDING = 1.0 + 1e-6  # commands at the limit are to pass
_TOLERANCE = 1.01  # of what is differentiated twice or thrice
_OVER_A_GAP = 2.0  # clients bridge a gap by rules of their own, assumed
_UNBROKEN = 3  # arrivals in a row from which a third difference is known


@dataclass(frozen=True, eq=False)
class Bounds:
    """What commands may do, each (n,) in units of the coordinate.

    Attributes:
        acceleration: Largest acceleration [1/s^2].
        jerk: Largest jerk [1/s^3].
    """

    acceleration: Vector
    jerk: Vector


class Trend:
    r"""Velocity and acceleration of commands that come once a period, or get lost.

    A missing command is replaced by constant acceleration (FCI documentation). How the robot
    judges the next one is assumed: over the whole gap of N periods, by the one acceleration
    that leads there from the velocity :math:`v` at the last command,

    .. math:: \Delta x = N v T + \tfrac{1}{2} N (N + 1) a T^2

    so that what was lost is not held against the client. Jerk is judged where enough commands
    came in a row.

    Attributes:
        velocity: (n,) [1/s].
        acceleration: (n,) [1/s^2].
    """

    def __init__(self, bounds: Bounds, velocity: Vector | None = None) -> None:
        size = len(bounds.jerk)
        self._bounds = bounds
        self.velocity = np.zeros(size) if velocity is None else velocity.copy()
        self.acceleration, self._jerk = np.zeros(size), np.zeros(size)
        self._arrived = self.velocity  # at the last command
        self._exact, self._since = self.velocity, 0  # a difference of neighbours, and its age
        self._lost, self._periods = 0, 1
        self._unbroken = _UNBROKEN

    def coast(self, velocity: Vector | None = None) -> None:
        """Do without a command: constant acceleration, or a velocity that follows from it."""
        self._lost += 1
        if velocity is None:
            velocity = self.velocity + self.acceleration * PERIOD
        self.velocity = velocity

    def moved(self, change: Vector) -> None:
        """Take a command of a position, as the change since the last one, (n,)."""
        periods = self._lost + 1
        missing = change - periods * self._arrived * PERIOD
        mean = 2.0 * missing / (periods * (periods + 1) * PERIOD**2)
        velocity = self._arrived + periods * mean * PERIOD
        self._take(velocity, mean, exact=periods == 1)

    def told(self, velocity: Vector, *, exact: bool = True) -> None:
        """Take a command of a velocity, (n,), or of what one is guessed from."""
        mean = (velocity - self._arrived) / ((self._lost + 1) * PERIOD)
        self._take(velocity, mean, exact=exact)

    @property
    def exact(self) -> bool:
        """Whether the velocity is known, not guessed over a gap."""
        return self._since == 0

    def _take(self, velocity: Vector, mean: Vector, *, exact: bool) -> None:
        self._periods = periods = self._lost + 1
        if periods == 1 and self._since:  # the one before was a guess
            mean = (velocity - self._exact) / ((self._since + 1) * PERIOD)
        self._unbroken = self._unbroken + 1 if periods == 1 else 0
        self._jerk = (mean - self.acceleration) / PERIOD
        self._lost = 0
        self.velocity, self.acceleration, self._arrived = velocity, mean, velocity
        if exact:
            self._exact, self._since = velocity, 0
        else:
            self._since += periods

    def fault(self, speed: Vector) -> str | None:
        """Return what is wrong with the newest command, if anything.

        Args:
            speed: Largest velocity, (n,) [1/s]; what lost commands amount to is added.
        """
        bounds = self._bounds
        broken = self._unbroken < _UNBROKEN
        largest = speed
        if broken:
            largest = speed + self._periods * PERIOD * bounds.acceleration
        if (np.abs(self.velocity) > largest * _ROUNDING).any():
            return "velocity_limits_violation"
        tolerance = _OVER_A_GAP if broken else _TOLERANCE
        if (np.abs(self.acceleration) > bounds.acceleration * tolerance).any():
            return "velocity_discontinuity"
        if not broken and (np.abs(self._jerk) > bounds.jerk * _TOLERANCE).any():
            return "acceleration_discontinuity"
        return None
