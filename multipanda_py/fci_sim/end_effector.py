# SPDX-License-Identifier: Apache-2.0
"""Rigid loads on the flange: the hand as the robot is told about it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.franka import (
    FINGER_HEIGHT,
    FINGER_INERTIAL,
    FINGER_UPPER,
    HAND_INERTIAL,
    HAND_TCP_HEIGHT,
    HAND_YAW,
)
from multipanda_py.robots.load import Load, combined
from multipanda_py.robots.rotations import rotation_from_rpy

Vector = NDArray[np.float64]


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
