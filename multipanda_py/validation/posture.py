# SPDX-License-Identifier: Apache-2.0
"""Postures from which tasks begin, for any arm."""

from __future__ import annotations

import numpy as np
import pinocchio as pin

from multipanda_py.control.position_ik import PositionIK
from multipanda_py.dynamics.arm_model import build_pinocchio
from multipanda_py.exceptions import ValidationRefused
from multipanda_py.pose import Pose
from multipanda_py.robots import ArmDescription
from multipanda_py.state import Matrix, Vector

_GAIN, _PERIOD, _STEPS, _TRIES = 20.0, 0.01, 300, 20
_CLOSE = np.array((1e-4, 1e-4, 1e-4, 1e-3, 1e-3, 1e-3))
MARGIN = 0.05
"""That stays to the limits of joints [rad, m]."""


def tool_in_world(arm: ArmDescription, q: Vector) -> Pose:
    """Return where the tool of an arm is at a posture, (n,) [rad]."""
    model = build_pinocchio(arm, base_in_world=True)
    data = model.createData()
    pin.framesForwardKinematics(model, data, q)
    place = data.oMf[model.getFrameId(arm.ee_frame)]
    return Pose(place.translation.copy(), place.rotation.copy())


def pointing(rotation: Matrix, direction: Vector) -> Matrix:
    """Return an orientation turned as little as possible so that z points along a direction."""
    turn = pin.Quaternion.FromTwoVectors(rotation[:, 2], np.asarray(direction, float))
    turned: Matrix = turn.toRotationMatrix() @ rotation
    return turned


def posture_at(arm: ArmDescription, pose_in_world: Pose, q: Vector, what: str) -> Vector:
    """Return the posture near another one that has the tool at a pose, (n,) [rad].

    Args:
        arm: What it is.
        pose_in_world: Of the tool.
        q: To start from and to stay near, (n,) [rad].
        what: For the message.

    Raises:
        ValidationRefused: If none is found.
    """
    base = arm.rotation_base_in_world
    position = base.T @ (pose_in_world.position - arm.position_base_in_world)
    rotation = base.T @ pose_in_world.rotation
    search = PositionIK(arm)
    lower, upper = (np.where(arm.limits.endless, np.inf * sign, side)
                    for sign, side in zip((-1.0, 1.0), arm.limits.span))  # fmt: skip
    rng, begin = np.random.default_rng(0), np.array(q, dtype=np.float64)
    for _ in range(_TRIES):
        found = begin.copy()
        for number in range(_STEPS):
            low, high = (lower + MARGIN - found) / _PERIOD, (upper - MARGIN - found) / _PERIOD
            step = search.rate(
                found, position, rotation, np.zeros(6), _GAIN, begin,
                1.0 if number < _STEPS // 2 else 0.0,
                (np.minimum(np.maximum(low, -5.0), 0.0), np.maximum(np.minimum(high, 5.0), 0.0)),
            )  # fmt: skip
            if (np.abs(search.error) < _CLOSE).all():
                return found
            found = found + _PERIOD * step
        begin = np.clip(q + rng.uniform(-1.0, 1.0, len(q)), lower + MARGIN, upper - MARGIN)
    raise ValidationRefused(
        f"{what}: arm {arm.name} does not reach {np.round(pose_in_world.position, 3).tolist()} m "
        "in the world with its tool as the task wants it"
    )
