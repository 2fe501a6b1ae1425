# SPDX-License-Identifier: Apache-2.0
"""Pictures of a scene whose loop runs by itself, drawn from what the loop has recorded."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import first_real_arm
from multipanda_py.exceptions import ConfigurationError, SimulationRefused
from multipanda_py.machine.closing import Closing
from multipanda_py.view.rendering import Image, Renderer
from multipanda_py.view.scene_view import SceneView

SIZE = (128, 128)
"""Height and width of pictures [pixels], where nobody says."""


def sizes_of(cameras: Sequence[str] | Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return heights and widths of pictures by camera.

    Raises:
        ConfigurationError: If they are no names, or no whole numbers of pixels by name.
    """
    given: Any = cameras
    try:
        sizes = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, SIZE)
        found = {
            name: (operator.index(height), operator.index(width))
            for name, (height, width) in sizes.items()
        }
    except (TypeError, ValueError):
        found = {"": (0, 0)}
    if isinstance(given, str) or any(
        not isinstance(name, str) or min(size) < 1 for name, size in found.items()
    ):
        raise ConfigurationError(
            f"cameras: got {cameras!r:.60}, allowed names, or height and width by name, whole "
            "numbers from 1"
        )
    return found


class RowPictures(Closing):
    """Draw all cameras of a scene at one instant, while the loop goes on.

    Args:
        config: Of the cell that runs, with simulated arms.
        sizes: Width and height of pictures that are going to be asked for [pixels].

    What draws them is made at once, which takes longer than arms wait for a target.

    Raises:
        SimulationRefused: If an arm is real: what cameras see of it, no scene knows.
        RenderingUnavailable: If there is no off-screen OpenGL.

    Thread: one, always the same.
    """

    def __init__(self, config: CellConfig, sizes: Iterable[tuple[int, int]]) -> None:
        if real := first_real_arm(config):
            raise SimulationRefused(
                f"cameras: got {real}, allowed simulated arms, as pictures are of a scene"
            )
        self._view = SceneView(config)
        self._renderers: dict[tuple[int, int], Renderer] = {}
        for width, height in sizes:
            self.image(None, width, height)

    def show(self, row: NDArray[np.void]) -> None:
        """Take a row that the loop has recorded for the next pictures."""
        self._view.show(row)

    def image(self, camera: str | None, width: int, height: int) -> Image:
        """Return a picture, (height, width, 3), of a camera or, without one, of the free view.

        Raises:
            UnknownName: If the scene has no such camera.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        size = (width, height)
        if size not in self._renderers:
            self._renderers[size] = Renderer(self._view.model, width, height, plain=True)
        return self._renderers[size].frame(self._view.data, camera)

    def close(self) -> None:
        """Let go of what draws; safe to call twice."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
