# SPDX-License-Identifier: Apache-2.0
"""What cameras of a cell file may be."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from multipanda_py.config.describe import first_real_arm
from multipanda_py.exceptions import ConfigurationError

if TYPE_CHECKING:
    from multipanda_py.config.cell_sections import CellSections

OVERVIEW = "overview"
"""Camera that every scene has."""
FREE = "free"
"""Name of the view from where a viewer begins, which every scene has, too."""
PLACED = ("position", "look_at", "fovy")
"""What a camera has that the scene does not have by itself."""
_LEAST = 1e-3


def camera_faults(config: CellSections) -> Iterator[str]:
    """Yield what is wrong with the cameras of a cell whose parts are well formed."""
    if not config.cameras:
        return
    with contextlib.suppress(ConfigurationError):  # of a missing backend, as said elsewhere
        if real := first_real_arm(config):
            yield f"cameras: got {real}, allowed simulated arms, as pictures are of a scene"
    for name, camera in config.cameras.items():
        where = f"cameras.{name}"
        if name in (FREE, *config.arms, *config.objects):
            yield f"{where}: this name is taken by an arm, an object or the free view"
        given = [key for key in PLACED if getattr(camera, key) is not None]
        if name == OVERVIEW:
            for key in given:
                yield f"{where}.{key}: got a value, allowed none: the scene says where this one is"
        elif missing := [key for key in PLACED[:2] if key not in given]:
            yield f"{where}.{missing[0]}: got none, allowed a point in the world [m]"
        elif math.dist(camera.position or (), camera.look_at or ()) < _LEAST:
            yield f"{where}.look_at: got its own position, allowed a point in front of it"
