# SPDX-License-Identifier: Apache-2.0
"""What the robot watches on its own while it moves: limits, contacts and collisions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.fci_limits import LOWER, UPPER, VELOCITY

Vector = NDArray[np.float64]


@dataclass(eq=False)
class Thresholds:
    """Values above which a load counts as contact (lower) or collision (upper).

    Those of SetCollisionBehavior for constant velocity; the ones for acceleration are taken
    but not used. The start values are assumed.

    Attributes:
        lower_torque: (7,) [Nm].
        upper_torque: (7,) [Nm].
        lower_force: In the stiffness frame, (6,) [N, Nm].
        upper_force: In the stiffness frame, (6,) [N, Nm].
    """

    lower_torque: Vector = field(default_factory=lambda: np.full(7, 25.0))
    upper_torque: Vector = field(default_factory=lambda: np.full(7, 25.0))
    lower_force: Vector = field(default_factory=lambda: np.full(6, 50.0))
    upper_force: Vector = field(default_factory=lambda: np.full(6, 50.0))


def violations(
    q: Vector, dq: Vector, tau_ext: Vector, wrench: Vector, thresholds: Thresholds
) -> list[str]:
    """Return the errors that the robot would raise.

    Args:
        q: Joint positions, (7,) [rad].
        dq: Joint velocities, (7,) [rad/s].
        tau_ext: External torques, (7,) [Nm].
        wrench: External wrench in the stiffness frame, (6,) [N, Nm].
        thresholds: Of collisions.
    """
    found = []
    if ((q < LOWER) | (q > UPPER)).any():
        found.append("joint_position_limits_violation")
    if (np.abs(dq) > VELOCITY).any():
        found.append("joint_velocity_violation")
    if (np.abs(tau_ext) > thresholds.upper_torque).any():
        found.append("joint_reflex")
    if (np.abs(wrench) > thresholds.upper_force).any():
        found.append("cartesian_reflex")
    return found
