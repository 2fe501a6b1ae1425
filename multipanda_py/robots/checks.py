# SPDX-License-Identifier: Apache-2.0
"""Checks of arrays that users hand to a description."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import ConfigurationError

TOLERANCE = 1e-6  # of a rotation matrix that was typed or printed


def vector(what: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a read-only copy of an array of finite numbers.

    Args:
        what: What the array is, for the message.
        value: The array.
        shape: The shape it must have.

    Raises:
        ConfigurationError: If it has another shape, or numbers that are not finite.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{what} must be numbers of shape {shape}: {error}") from error
    if array.shape != shape:
        raise ConfigurationError(f"{what} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ConfigurationError(f"{what} must be finite, got {array.tolist()}")
    array.flags.writeable = False
    return array


def rotation_matrix(what: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only rotation matrix, (3, 3), made exactly orthonormal.

    Raises:
        ConfigurationError: If the value is further than 1e-6 from a rotation.
    """
    given = vector(what, value, (3, 3))
    left, _, right = np.linalg.svd(given)
    rotation = np.asarray(left @ right, dtype=np.float64)
    if np.linalg.det(given) < 0.0 or np.abs(rotation - given).max() > TOLERANCE:
        raise ConfigurationError(f"{what} is not a rotation matrix: {given.tolist()}")
    if np.abs(given.T @ given - np.eye(3)).max() < 1e-14:
        return given
    rotation.flags.writeable = False
    return rotation


def rigid_pose(what: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a read-only homogeneous transform, (4, 4).

    Raises:
        ConfigurationError: If the value is none.
    """
    given = vector(what, value, (4, 4))
    if np.abs(given[3] - (0.0, 0.0, 0.0, 1.0)).max() > TOLERANCE:
        raise ConfigurationError(f"{what} must end with the row 0 0 0 1, got {given[3].tolist()}")
    pose = np.eye(4)
    pose[:3, :3] = rotation_matrix(f"rotation of {what}", given[:3, :3])
    pose[:3, 3] = given[:3, 3]
    pose.flags.writeable = False
    return pose
