# SPDX-License-Identifier: Apache-2.0
"""Rotation vectors of many slices at once."""

from __future__ import annotations

import numpy as np

from multipanda_py.extras import needed
from multipanda_py.state import Matrix, Vector

_SMALL = 1e-6
"""Angle below which series replace quotients [rad]; what they leave out is below 1e-13."""


def skew(vectors: Vector) -> Matrix:
    """Return the matrices of cross products, (s, 3) to (s, 3, 3)."""
    result = np.zeros((*vectors.shape, 3))
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    result[..., 0, 1], result[..., 0, 2], result[..., 1, 2] = -z, y, -x
    result[..., 1, 0], result[..., 2, 0], result[..., 2, 1] = z, -y, x
    return result


def exp3(vectors: Vector) -> Matrix:
    """Return the rotation matrices of rotation vectors, (s, 3) to (s, 3, 3)."""
    rotation = needed("scipy.spatial.transform").Rotation  # takes nothing that is read-only
    result: Matrix = rotation.from_rotvec(np.array(vectors)).as_matrix()
    return result


def log3(rotations: Matrix) -> Vector:
    """Return the rotation vectors of rotation matrices, of angles up to pi, (s, 3)."""
    rotation = needed("scipy.spatial.transform").Rotation
    result: Vector = rotation.from_matrix(np.array(rotations)).as_rotvec()
    return result


def left_jacobian(vectors: Vector) -> Matrix:
    r"""Return what turns the rate of a rotation vector into an angular velocity, (s, 3, 3).

    .. math:: J = I + \frac{1 - \cos\theta}{\theta^2} [w]_\times
        + \frac{\theta - \sin\theta}{\theta^3} [w]_\times^2

    The velocity is in the frame that the rotation leads to.
    """
    angle, cross = _angle_and_cross(vectors)
    small = angle < _SMALL
    safe = np.where(small, 1.0, angle)
    first = np.where(small, 0.5, (1.0 - np.cos(safe)) / safe**2)
    second = np.where(small, 1.0 / 6.0, (safe - np.sin(safe)) / safe**3)
    result: Matrix = np.eye(3) + first * cross + second * (cross @ cross)
    return result


def left_jacobian_inverse(vectors: Vector) -> Matrix:
    r"""Return the inverse of :func:`left_jacobian`, (s, 3, 3).

    .. math:: J^{-1} = I - \frac{1}{2} [w]_\times
        + \left(\frac{1}{\theta^2} - \frac{\cot(\theta / 2)}{2 \theta}\right) [w]_\times^2
    """
    angle, cross = _angle_and_cross(vectors)
    small = angle < 1e-3  # the difference of two large quotients
    safe = np.where(small, 1.0, angle)
    exact = 1.0 / safe**2 - 1.0 / (2.0 * safe * np.tan(safe / 2.0))
    second = np.where(small, 1.0 / 12.0 + angle**2 / 720.0, exact)
    result: Matrix = np.eye(3) - 0.5 * cross + second * (cross @ cross)
    return result


def _angle_and_cross(vectors: Vector) -> tuple[Vector, Matrix]:
    angle = np.sqrt((vectors * vectors).sum(-1))[..., None, None]
    return angle, skew(vectors)
