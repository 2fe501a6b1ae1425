# SPDX-License-Identifier: Apache-2.0
"""Rigid loads on the flange: the hand as the robot is told about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.description.franka import (
    FINGER_HEIGHT,
    FINGER_INERTIAL,
    FINGER_UPPER,
    HAND_INERTIAL,
    HAND_TCP_HEIGHT,
    HAND_YAW,
)
from multipanda_py.description.rotations import rotation_from_rpy

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Load:
    """A rigid body on the flange.

    Attributes:
        mass: Mass [kg].
        com: Centre of mass in the flange's frame, (3,) [m].
        inertia: About the centre of mass along the flange's axes, (3, 3) [kg m^2].
    """

    mass: float
    com: Vector
    inertia: Vector


def combined(parts: list[Load]) -> Load:
    """Return several loads as one (parallel axis theorem)."""
    mass = sum(part.mass for part in parts)
    com = sum((part.mass * part.com for part in parts), np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for part in parts:
        arm = part.com - com
        inertia += part.inertia + part.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return Load(mass, com, inertia)


def hand_load() -> Load:
    """Return the hand with its fingers open as one load."""
    hand = rotation_from_rpy(0.0, 0.0, HAND_YAW)
    parts = [Load(HAND_INERTIAL.mass, hand @ HAND_INERTIAL.com,
                  hand @ HAND_INERTIAL.inertia @ hand.T)]  # fmt: skip
    for yaw in (0.0, np.pi):
        turn = hand @ rotation_from_rpy(0.0, 0.0, yaw)
        com = np.array(FINGER_INERTIAL.com) + (0.0, FINGER_UPPER, FINGER_HEIGHT)
        parts.append(
            Load(FINGER_INERTIAL.mass, turn @ com, turn @ FINGER_INERTIAL.inertia @ turn.T)
        )
    return combined(parts)


def hand_tcp() -> Vector:
    """Return the pose of the hand's tool centre point in the flange's frame, (4, 4)."""
    pose = np.eye(4)
    pose[:3, :3] = rotation_from_rpy(0.0, 0.0, HAND_YAW)
    pose[2, 3] = HAND_TCP_HEIGHT
    return pose
