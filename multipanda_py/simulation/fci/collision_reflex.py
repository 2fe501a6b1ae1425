# SPDX-License-Identifier: Apache-2.0
"""Collision reflex of a simulated robot: limits and thresholds that stop it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.franka import LOWER_LIMITS, UPPER_LIMITS, VELOCITY_LIMITS

Vector = NDArray[np.float64]


@dataclass(eq=False)
class Thresholds:
    """Thresholds of external torques and forces: contact is reported, a collision stops the robot.

    They are the thresholds for constant velocity in the request SetCollisionBehavior. Those for
    acceleration have no effect. The initial values are assumed.

    Attributes:
        lower_torque: Contact thresholds of joints, (7,) [Nm].
        upper_torque: Collision thresholds of joints, (7,) [Nm].
        lower_force: Contact thresholds in the stiffness frame, (6,) [N, Nm].
        upper_force: Collision thresholds in the stiffness frame, (6,) [N, Nm].
    """

    lower_torque: Vector = field(default_factory=lambda: np.full(7, 25.0))
    upper_torque: Vector = field(default_factory=lambda: np.full(7, 25.0))
    lower_force: Vector = field(default_factory=lambda: np.full(6, 50.0))
    upper_force: Vector = field(default_factory=lambda: np.full(6, 50.0))


def violations(
    q: Vector, dq: Vector, tau_ext: Vector, wrench: Vector, thresholds: Thresholds
) -> list[str]:
    """Return the names of libfranka errors that a state of the robot causes; empty for none.

    Args:
        q: Joint positions, (7,) [rad].
        dq: Joint velocities, (7,) [rad/s].
        tau_ext: External torques, (7,) [Nm].
        wrench: External wrench in the stiffness frame, (6,) [N, Nm].
        thresholds: Thresholds; contact thresholds are not used.
    """
    violations = []
    if ((q < LOWER_LIMITS) | (q > UPPER_LIMITS)).any():
        violations.append("joint_position_limits_violation")
    if (np.abs(dq) > VELOCITY_LIMITS).any():
        violations.append("joint_velocity_violation")
    if (np.abs(tau_ext) > thresholds.upper_torque).any():
        violations.append("joint_reflex")
    if (np.abs(wrench) > thresholds.upper_force).any():
        violations.append("cartesian_reflex")
    return violations
