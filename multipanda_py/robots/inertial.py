# SPDX-License-Identifier: Apache-2.0
"""Mass, centre of mass and inertia of one link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.robots.shapes import Point

TRIANGLE_MARGIN = 1e-9  # kept when an inertia is repaired [kg m^2]


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
        """Rotational inertia that a rigid body can have, (3, 3) [kg m^2]."""
        xx, yy, zz, xy, xz, yz = self.moments
        return nearest_consistent(np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]))


def nearest_consistent(inertia: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the closest inertia that a mass distribution can have.

    Principal moments obey :math:`I_1 + I_2 \ge I_3`. Published inertias can break this (link 4
    of the FER does, by 1.1e-3 kg m^2); MuJoCo then refuses the model. The largest moment gives
    and the other two take a third of what is missing each: the smallest change in the
    Frobenius norm. An inertia that is consistent is returned as it is.

    Args:
        inertia: Symmetric and positive definite, (3, 3) [kg m^2].

    Returns:
        Inertia with the same principal axes, (3, 3) [kg m^2].
    """
    moments, axes = np.linalg.eigh(inertia)
    missing = float(moments[2] - moments[0] - moments[1])
    if missing <= 0.0:
        return inertia
    third = (missing + TRIANGLE_MARGIN) / 3.0
    repaired = axes @ np.diag(moments + np.array([third, third, -third])) @ axes.T
    return np.asarray((repaired + repaired.T) / 2.0)
