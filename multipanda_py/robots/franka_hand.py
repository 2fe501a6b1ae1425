# SPDX-License-Identifier: Apache-2.0
"""The Franka Hand, one parallel gripper among others."""

from __future__ import annotations

from math import pi

from multipanda_py.robots.franka import (
    FINGER_BLOCKS,
    FINGER_FORCE,
    FINGER_HEIGHT,
    FINGER_INERTIAL,
    FINGER_UPPER,
    FINGER_VELOCITY,
    HAND_CAPSULES,
    HAND_CONTACT,
    HAND_INERTIAL,
    HAND_TCP_HEIGHT,
    HAND_YAW,
)
from multipanda_py.robots.look import FINGER_LOOK, HAND_LOOK
from multipanda_py.robots.parallel_gripper import Finger, GripperBody, ParallelGripper
from multipanda_py.robots.shapes import Origin


def _finger(yaw: float) -> Finger:
    return Finger(
        inertial=FINGER_INERTIAL,
        contact=FINGER_BLOCKS,
        look=FINGER_LOOK,
        origin=Origin((0.0, 0.0, FINGER_HEIGHT), (0.0, 0.0, yaw)),
        axis=(0.0, 1.0, 0.0),
    )


FRANKA_HAND = ParallelGripper(
    name="franka_hand",
    mount=Origin((0.0, 0.0, 0.0), (0.0, 0.0, HAND_YAW)),
    tcp=Origin((0.0, 0.0, HAND_TCP_HEIGHT)),
    body=GripperBody(HAND_INERTIAL, HAND_CONTACT, HAND_LOOK),
    fingers=(_finger(0.0), _finger(pi)),
    lower=0.0,
    upper=FINGER_UPPER,
    velocity=FINGER_VELOCITY,
    speed=FINGER_VELOCITY,
    force=FINGER_FORCE,
    most_force=2.0 * FINGER_FORCE,  # half of it can be kept up (product sheet)
    capsules=HAND_CAPSULES,
)
