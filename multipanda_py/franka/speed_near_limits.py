# SPDX-License-Identifier: Apache-2.0
"""How fast a robot lets commanded joints move towards their position limits."""

from __future__ import annotations

import numpy as np

from multipanda_py.limits import ArmLimits
from multipanda_py.robots.fci_limits import DECELERATION, LOWER, UPPER, velocity_towards
from multipanda_py.state import Vector

_REACTION = 0.005
"""Time in which full acceleration can turn into full braking, at the jerk of commands [s]."""
_SHARE = 0.9
"""Of the limit of acceleration that the way to a position limit is braked with at most."""


class SpeedNearLimits:
    """Bound speeds as an FR3 does, a little earlier, and so that they can be kept by braking.

    Args:
        limits: Of commanded motions.
    """

    def __init__(self, limits: ArmLimits) -> None:
        self._braking = np.minimum(DECELERATION, _SHARE * limits.acceleration)

    def __call__(self, q: Vector, dq: Vector) -> Vector:
        """Return the largest speeds, (n,) [rad/s], at positions and in the direction of ``dq``."""
        room = np.where(dq > 0.0, UPPER - q, q - LOWER)
        return velocity_towards(room - _REACTION * np.abs(dq), self._braking)
