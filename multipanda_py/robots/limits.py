# SPDX-License-Identifier: Apache-2.0
"""Joint limits of the Franka arms."""

from __future__ import annotations

import numpy as np

from multipanda_py.limits import ArmLimits

JOINTS = 7
"""Of either model."""


def _limits(
    lower: tuple[float, ...],
    upper: tuple[float, ...],
    velocity: tuple[float, ...],
    acceleration: tuple[float, ...],
    jerk: tuple[float, ...],
) -> ArmLimits:
    """Build limits of a robot; torque and torque rate are the same for all of them."""
    return ArmLimits(
        lower=np.array(lower),
        upper=np.array(upper),
        velocity=np.array(velocity),
        acceleration=np.array(acceleration),
        jerk=np.array(jerk),
        torque=np.array((87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)),
        torque_rate=np.full(JOINTS, 1000.0),
    )


# Position, velocity and torque: franka_description, robots/<model>/joint_limits.yaml.
# Acceleration, jerk and torque rate: Franka Control Interface documentation, "Robot and
# interface specifications", joint space constants.
# The FR3 also lowers its speed limit near the position limits; that is not modelled here.
FR3_LIMITS = _limits(
    lower=(-2.7437, -1.7837, -2.9007, -3.0421, -2.8065, 0.5445, -3.0159),
    upper=(2.7437, 1.7837, 2.9007, -0.1518, 2.8065, 4.5169, 3.0159),
    velocity=(2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26),
    acceleration=(10.0,) * JOINTS,
    jerk=(5000.0,) * JOINTS,
)
FER_LIMITS = _limits(
    lower=(-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973),
    upper=(2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973),
    velocity=(2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61),
    acceleration=(15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0),
    jerk=(7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0),
)
LIMITS = {"fr3": FR3_LIMITS, "fer": FER_LIMITS}
"""Limits by robot model."""
