# SPDX-License-Identifier: Apache-2.0
"""What the flange carries, as one rigid body."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.inertial import Inertial
from multipanda_py.robots.shapes import point_of
from multipanda_py.settings import Settings

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


NO_LOAD = Load(0.0, np.zeros(3), np.zeros((3, 3)))


def load_of(settings: Settings) -> Load:
    """Return the load of an arm with these settings."""
    return settings.load or NO_LOAD


def combined(parts: Sequence[Load]) -> Load:
    r"""Return several bodies as one, by the parallel axis theorem.

    .. math::
        c = \sum m_i c_i / \sum m_i, \quad
        I = \sum I_i + m_i (d_i^T d_i E - d_i d_i^T), \quad d_i = c_i - c

    Bodies without mass do not count.
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
    """Return a body as the inertial of its link."""
    return Inertial(float(body.mass), point_of(body.com), moments_of(body.inertia))


def moments_of(inertia: Vector) -> tuple[float, float, float, float, float, float]:
    """Return xx yy zz xy xz yz of a matrix, (3, 3): the reverse of :func:`inertia_matrix`."""
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.tolist()
    return xx, yy, zz, xy, xz, yz


def inertia_matrix(values: Sequence[float]) -> Vector:
    """Return the matrix of xx yy zz xy xz yz, (3, 3)."""
    xx, yy, zz, xy, xz, yz = values
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
