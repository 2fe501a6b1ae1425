# SPDX-License-Identifier: Apache-2.0
"""A load on the flange of an arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.checks import rigid_pose, vector
from multipanda_py.robots.shapes import Capsule, Turned

ROD_RADIUS = 0.008  # of the rod that stands for a tool [m]


@dataclass(frozen=True, eq=False)
class Tool:
    """A rigid load on the flange, beside the hand if there is one.

    Attributes:
        mass: Mass [kg].
        com_in_flange: Centre of mass, (3,) [m].
        inertia: About the centre of mass along the flange's axes, (3, 3) [kg m^2].
        pose_tcp_in_flange: Tool centre point, homogeneous transform, (4, 4).
        friction: On things in simulation; 0 for that of the thing.

    Raises:
        ConfigurationError: If no rigid body has such values, or the pose is no transform.
    """

    mass: float
    com_in_flange: NDArray[np.float64]
    inertia: NDArray[np.float64]
    pose_tcp_in_flange: NDArray[np.float64]
    friction: float = 0.0

    def __post_init__(self) -> None:
        """Copy the arrays, check them and make them read-only."""
        com = vector("tool: com_in_flange", self.com_in_flange, (3,))
        inertia = vector("tool: inertia", self.inertia, (3, 3))
        moments = np.linalg.eigvalsh((inertia + inertia.T) / 2.0)
        if not (np.isfinite(self.mass) and self.mass >= 0.0):
            raise ConfigurationError(f"tool: mass must be 0 kg or more, got {self.mass}")
        if not np.allclose(inertia, inertia.T, atol=1e-9):
            raise ConfigurationError("tool: inertia must be symmetric")
        if moments[0] < 0.0 or moments[0] + moments[1] < moments[2] - 1e-9:
            raise ConfigurationError(
                f"tool: no body has the principal moments {moments} kg m^2; "
                "the sum of any two must reach the third"
            )
        if self.mass > 0.0 and moments[0] <= 0.0:
            raise ConfigurationError("tool: inertia must be positive definite when mass is given")
        object.__setattr__(self, "com_in_flange", com)
        object.__setattr__(self, "inertia", inertia)
        pose = rigid_pose("tool: pose_tcp_in_flange", self.pose_tcp_in_flange)
        object.__setattr__(self, "pose_tcp_in_flange", pose)

    @property
    def capsules(self) -> tuple[Capsule, ...]:
        """A thin rod from the flange to the tip, in the frame of the flange; none if short."""
        tip = self.pose_tcp_in_flange[:3, 3]
        length = float(np.linalg.norm(tip))
        if length < 4.0 * ROD_RADIUS:
            return ()
        x, y, z = (tip * (1.0 - ROD_RADIUS / length)).tolist()
        return (Capsule((0.0, 0.0, 0.0), (x, y, z), ROD_RADIUS),)

    @property
    def look(self) -> tuple[Turned, ...]:
        """Picture of the rod."""
        r = ROD_RADIUS
        return tuple(Turned(c.start, c.end, r, r, r, r, "tool") for c in self.capsules)
