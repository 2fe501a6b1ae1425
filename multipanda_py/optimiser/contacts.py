# SPDX-License-Identifier: Apache-2.0
"""Contact: what touches stays, slides or pivots."""

from __future__ import annotations

import numpy as np

from multipanda_py.optimiser.goals import Position, relative_point
from multipanda_py.optimiser.kinematics import Slices
from multipanda_py.optimiser.objective import Objective
from multipanda_py.optimiser.scene import WORLD, Scene
from multipanda_py.state import Matrix


class Touches(Position):
    """Let the origins of two frames be one point, three numbers [m]; they may turn about it.

    This is a pivot: a ball on a face that neither rolls nor slides.

    Args:
        frame: A point of one body.
        base: The point of the other.
    """

    def __init__(self, frame: str, base: str) -> None:
        super().__init__(frame, np.zeros(3), base)


class Stays(Objective):
    """Keep the point of contact where it was in the other frame, three numbers [m/s].

    Args:
        frame: A point of one body.
        base: What it touches.
    """

    order = 1

    def __init__(self, frame: str, base: str) -> None:
        self.frames = (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return metres."""
        return ("m",) * 3

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return where the point is."""
        return relative_point(slices, *self.frames)


class Slides(Objective):
    """Keep a point in the plane x-y of the other frame, one number, its z [m].

    Args:
        frame: The point.
        base: A frame in the plane, z across it.
    """

    def __init__(self, frame: str, base: str = WORLD) -> None:
        self.frames = (frame, base)

    def units(self, scene: Scene) -> tuple[str, ...]:
        """Return metres."""
        return ("m",)

    def evaluate(self, slices: Slices) -> tuple[Matrix, Matrix]:
        """Return how far above the plane it is."""
        point, moved = relative_point(slices, *self.frames)
        return point[:, 2:], moved[:, 2:]
