# SPDX-License-Identifier: Apache-2.0
"""A thing that stands in a simulated cell besides the arms."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.robots.checks import rotation_matrix, vector

PARKED = (0.0, 0.0, -1000.0)
"""Where things are that are absent, in the world: far from everything that looks [m]."""
# How many numbers describe the size of each shape.
SHAPES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2}


@dataclass(frozen=True, eq=False)
class SceneObject:
    """A solid, movable when it has a mass.

    Attributes:
        name: Name of its body, and with suffix ``_joint`` of its free joint.
        shape: ``box``, ``sphere``, ``cylinder`` or ``capsule``.
        size: As in MuJoCo [m]: half edges x, y, z of a box; radius of a sphere; radius and
            half length of a cylinder or capsule (without the capsule's ends).
        position: Centre in the world, (3,) [m].
        rotation: Orientation in the world, (3, 3).
        mass: Mass [kg]; 0 fixes it to the world.
        rgba: Red, green, blue, opacity, each 0 to 1.
        friction: Sliding [-], torsional [m] and rolling [m] friction, as in MuJoCo.
        contact: Time constant [s] and damping ratio of its contacts, as in MuJoCo.
        present: Whether it is in the scene from the start; only what has a mass may be absent.

    Raises:
        ConfigurationError: If a value cannot be used; the message says which and why.
    """

    name: str
    shape: str
    size: tuple[float, ...]
    position: NDArray[np.float64] = field(default_factory=lambda: np.zeros(3))
    rotation: NDArray[np.float64] = field(default_factory=lambda: np.eye(3))
    mass: float = 0.0
    rgba: tuple[float, float, float, float] = (0.85, 0.55, 0.25, 1.0)
    friction: tuple[float, float, float] = (1.0, 0.005, 0.0001)
    contact: tuple[float, float] = (0.02, 1.0)
    present: bool = True

    def __post_init__(self) -> None:
        """Copy the arrays, check them and make them read-only."""
        where = f"of object {self.name}"
        if not self.name:
            raise ConfigurationError("an object needs a name")
        if self.shape not in SHAPES:
            raise UnknownName(f"shape {where}", self.shape, tuple(SHAPES))
        size = vector(f"size {where} ({self.shape})", self.size, (SHAPES[self.shape],))
        if (size <= 0.0).any():
            raise ConfigurationError(f"size {where} must be positive, got {size.tolist()}")
        if not (np.isfinite(self.mass) and self.mass >= 0.0):
            raise ConfigurationError(f"mass {where} must be 0 kg or more, got {self.mass}")
        if not (self.present or self.mass > 0.0):
            raise ConfigurationError(f"present {where} must be true: it has no mass, and rests")
        rgba = vector(f"rgba {where}", self.rgba, (4,))
        friction = vector(f"friction {where}", self.friction, (3,))
        if (friction < 0.0).any() or (rgba < 0.0).any() or (rgba > 1.0).any():
            raise ConfigurationError(f"friction {where} must be >= 0 and rgba within [0, 1]")
        contact = vector(f"contact {where}", self.contact, (2,))
        if (contact <= 0.0).any():
            raise ConfigurationError(f"contact {where} must be positive, got {contact.tolist()}")
        checked = {
            "contact": tuple(contact.tolist()),
            "size": tuple(size.tolist()),
            "position": vector(f"position {where}", self.position, (3,)),
            "rotation": rotation_matrix(f"rotation {where}", self.rotation),
            "rgba": tuple(rgba.tolist()),
            "friction": tuple(friction.tolist()),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def start(self) -> NDArray[np.float64]:
        """Position of its centre at the start, (3,) [m]: parked if it is absent."""
        return self.position if self.present else np.array(PARKED)
