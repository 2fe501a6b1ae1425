# SPDX-License-Identifier: Apache-2.0
"""Inertial properties of rigid bodies, such as the links and the payload of an arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.parameters import Settings
from multipanda_py.robots.geometry import Point, point_of

STANDARD_GRAVITY = 9.81
"""Gravitational acceleration, also in simulation [m/s^2]."""
TOLERANCE = 1e-6  # Tolerance for rotation matrices with a limited number of digits.


def vector(description: str, value: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return a read-only copy of an array of finite numbers with a required shape.

    ``description`` is the name of the array in the message.

    Raises:
        ConfigurationError: The array has another shape, or numbers that are not finite.
    """
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{description} must be numbers of shape {shape}: {error}"
        ) from error
    if array.shape != shape:
        raise ConfigurationError(f"{description} must have shape {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ConfigurationError(f"{description} must be finite, got {array.tolist()}")
    array.flags.writeable = False
    return array


def rotation_matrix(description: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a rounded rotation matrix made exactly orthonormal, (3, 3), read-only.

    ``description`` is the name of the value in messages.

    Raises:
        ConfigurationError: An element differs by more than 1e-6 from a rotation.
    """
    text = vector(description, value, (3, 3))
    left, _, right = np.linalg.svd(text)
    rotation = np.asarray(left @ right, dtype=np.float64)
    if np.linalg.det(text) < 0.0 or np.abs(rotation - text).max() > TOLERANCE:
        raise ConfigurationError(f"{description} is not a rotation matrix: {text.tolist()}")
    if np.abs(text.T @ text - np.eye(3)).max() < 1e-14:
        return text
    rotation.flags.writeable = False
    return rotation


def rigid_pose(description: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a rounded homogeneous transform made exactly rigid, (4, 4), read-only.

    ``description`` is the name of the value in messages.

    Raises:
        ConfigurationError: The value is not a rigid transform.
    """
    text = vector(description, value, (4, 4))
    if np.abs(text[3] - (0.0, 0.0, 0.0, 1.0)).max() > TOLERANCE:
        raise ConfigurationError(
            f"{description} must end with the row 0 0 0 1, got {text[3].tolist()}"
        )
    pose = np.eye(4)
    pose[:3, :3] = rotation_matrix(f"rotation of {description}", text[:3, :3])
    pose[:3, 3] = text[:3, 3]
    pose.flags.writeable = False
    return pose


TRIANGLE_MARGIN = 1e-9  # Margin of the triangle inequality of a corrected inertia [kg m^2].


@dataclass(frozen=True)
class Inertial:
    """Inertial properties of a link, in the link's frame.

    Attributes:
        mass: Mass [kg].
        com: Centre of mass [m].
        moments: Ixx, Iyy, Izz, Ixy, Ixz, Iyz about the centre of mass [kg m^2].
    """

    mass: float
    com: Point
    moments: tuple[float, float, float, float, float, float]

    @property
    def inertia(self) -> NDArray[np.float64]:
        """Inertia about the centre of mass, (3, 3) [kg m^2]; see :func:`nearest_consistent`."""
        xx, yy, zz, xy, xz, yz = self.moments
        return nearest_consistent(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def nearest_consistent(inertia: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the closest inertia that a mass distribution can have, (3, 3) [kg m^2].

    Principal moments must obey :math:`I_1 + I_2 \ge I_3`, otherwise MuJoCo rejects the model. The
    correction keeps the principal axes. It reduces the largest moment and increases the other two,
    each by a third of the violation.

    Args:
        inertia: Symmetric and positive definite, (3, 3) [kg m^2].
    """
    moments, axes = np.linalg.eigh(inertia)
    missing = float(moments[2] - moments[0] - moments[1])
    if missing <= 0.0:
        return inertia
    third = (missing + TRIANGLE_MARGIN) / 3.0
    repaired = axes @ np.diag(moments + np.array([third, third, -third])) @ axes.T
    return np.asarray((repaired + repaired.T) / 2.0)


Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Load:
    """Rigid body on the flange, such as a payload.

    Attributes:
        mass: Mass [kg].
        com: Centre of mass in the flange's frame, (3,) [m].
        inertia: Inertia about the centre of mass along the flange's axes, (3, 3) [kg m^2].
    """

    mass: float
    com: Vector
    inertia: Vector


NO_LOAD = Load(0.0, np.zeros(3), np.zeros((3, 3)))


def load_of(settings: Settings) -> Load:
    return settings.load or NO_LOAD


def combined(parts: Sequence[Load]) -> Load:
    r"""Return one body that combines several bodies, by the parallel axis theorem.

    .. math::
        c = \sum m_i c_i / \sum m_i, \quad
        I = \sum I_i + m_i (d_i^T d_i E - d_i d_i^T), \quad d_i = c_i - c.

    The parts have masses :math:`m_i`, centres of mass :math:`c_i` and inertias :math:`I_i`; E is
    the unit matrix. Bodies without mass are ignored.
    """
    heavy = [part for part in parts if part.mass > 0.0]
    if len(heavy) < 2:
        return heavy[0] if heavy else NO_LOAD
    mass = sum(part.mass for part in heavy)
    com = sum((part.mass * part.com for part in heavy), np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for part in heavy:
        arm = part.com - com
        inertia += part.inertia + part.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return Load(mass, com, inertia)


def inertial_of(body: Load) -> Inertial:
    """Convert a body in the frame of its link to :class:`Inertial`."""
    return Inertial(float(body.mass), point_of(body.com), moments_of(body.inertia))


def moments_of(inertia: Vector) -> tuple[float, float, float, float, float, float]:
    """Return the elements xx, yy, zz, xy, xz and yz of an inertia matrix, (3, 3)."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return xx, yy, zz, xy, xz, yz


def inertia_matrix(values: Sequence[float]) -> Vector:
    """Return the inertia matrix with the elements xx, yy, zz, xy, xz and yz, (3, 3)."""
    xx, yy, zz, xy, xz, yz = values
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
