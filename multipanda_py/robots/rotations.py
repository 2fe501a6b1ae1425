# SPDX-License-Identifier: Apache-2.0
"""Conversions of rotations that the two file formats need."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def rotation_from_rpy(roll: float, pitch: float, yaw: float) -> NDArray[np.float64]:
    r"""Return the rotation matrix of fixed-axis angles as URDF defines them.

    .. math:: R = R_z(yaw) R_y(pitch) R_x(roll)

    Args:
        roll: Angle about x [rad].
        pitch: Angle about y [rad].
        yaw: Angle about z [rad].

    Returns:
        Rotation matrix, (3, 3).
    """
    (sr, cr), (sp, cp), (sy, cy) = ((math.sin(a), math.cos(a)) for a in (roll, pitch, yaw))
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def gravity_in_base(rpy: Sequence[float]) -> NDArray[np.float64]:
    """Return gravity in a base that is mounted at some angles in the world, (3,) [m/s^2]."""
    return np.asarray(rotation_from_rpy(*rpy).T @ (0.0, 0.0, -9.81))


def rpy_from_rotation(rotation: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return roll, pitch and yaw [rad] of a rotation matrix, (3, 3); yaw 0 at a pole."""
    r = rotation
    cos_pitch = math.hypot(float(r[0, 0]), float(r[1, 0]))
    pitch = math.atan2(-float(r[2, 0]), cos_pitch)
    if cos_pitch < 1e-9:
        return math.atan2(-float(r[1, 2]), float(r[1, 1])), pitch, 0.0
    roll = math.atan2(float(r[2, 1]), float(r[2, 2]))
    return roll, pitch, math.atan2(float(r[1, 0]), float(r[0, 0]))


def rotation_of_axis(direction: ArrayLike) -> NDArray[np.float64]:
    """Return a rotation whose z axis points along a direction.

    Args:
        direction: Any vector but zero, (3,).

    Returns:
        Rotation matrix, (3, 3); the angle about the direction is arbitrary.
    """
    z = np.asarray(direction, dtype=np.float64)
    z = z / np.linalg.norm(z)
    helper = np.eye(3)[int(np.argmin(np.abs(z)))]
    x = np.cross(helper, z)
    x /= np.linalg.norm(x)
    return np.column_stack((x, np.cross(z, x), z))


def look_at(direction: ArrayLike) -> NDArray[np.float64]:
    """Return the rotation of an upright camera (it looks along its -z axis).

    Args:
        direction: Where it looks, (3,); looking straight up or down, the world's x is up in the
            picture.

    Returns:
        Rotation matrix of the camera in the world, (3, 3).
    """
    z = -np.asarray(direction, dtype=np.float64)
    z = z / np.linalg.norm(z)
    x = np.cross((0.0, 0.0, 1.0), z)
    if np.linalg.norm(x) < 1e-6:
        x = np.cross((1.0, 0.0, 0.0), z)
    x /= np.linalg.norm(x)
    return np.column_stack((x, np.cross(z, x), z))
