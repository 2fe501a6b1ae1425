# SPDX-License-Identifier: Apache-2.0
"""Pictures of a scene whose loop runs by itself, drawn from what the loop has recorded."""

from __future__ import annotations

from multipanda_py.cell.cell import Cell
from multipanda_py.config.describe import first_real_arm
from multipanda_py.exceptions import SimulationRefused
from multipanda_py.machine.closing import Closing
from multipanda_py.view.rendering import Image, Renderer
from multipanda_py.view.scene_view import SceneView


class RowPictures(Closing):
    """Draw all cameras of a scene at one instant, while the loop goes on.

    Args:
        cell: That runs, with simulated arms.

    Raises:
        SimulationRefused: If an arm is real: what cameras see of it, no scene knows.

    Thread: one, always the same.
    """

    def __init__(self, cell: Cell) -> None:
        if real := first_real_arm(cell.config):
            raise SimulationRefused(
                f"cameras: got {real}, allowed simulated arms, as pictures are of a scene"
            )
        self._cell, self._view = cell, SceneView(cell.config)
        self._renderers: dict[tuple[int, int], Renderer] = {}

    def look(self) -> float:
        """Take the cycle of now for the next pictures, and return its time [s]."""
        row = self._cell.row()
        self._view.show(row)
        return float(row["time"])

    def image(self, camera: str | None, width: int, height: int) -> Image:
        """Return a picture, (height, width, 3), of a camera or, without one, of the free view.

        Raises:
            UnknownName: If the scene has no such camera.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        size = (width, height)
        if size not in self._renderers:
            self._renderers[size] = Renderer(self._view.model, width, height)
        return self._renderers[size].frame(self._view.data, camera)

    def close(self) -> None:
        """Let go of what draws; safe to call twice."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
