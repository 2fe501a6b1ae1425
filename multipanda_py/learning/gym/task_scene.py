# SPDX-License-Identifier: Apache-2.0
"""What tasks see of a cell, and where they put things before an episode."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.cell.cell import Cell
from multipanda_py.cell.history import RecordedMoment
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import first_real_arm
from multipanda_py.exceptions import ConfigurationError, SimulationRefused, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.system.child_process import Closing
from multipanda_py.simulation.rendering import Image, Renderer
from multipanda_py.simulation.scene_view import SceneView
from multipanda_py.state import Vector

TOP = 0.2
"""Height of the table [m]."""
TABLE = {"shape": "box", "size": [0.25, 0.4, 0.1], "position": [0.5, 0.0, 0.1],
         "rgba": [0.72, 0.6, 0.45, 1.0]}  # fmt: skip
ROD = {"mass": 0.2, "com": [0.0, 0.0, 0.05], "position": [0.0, 0.0, 0.12],
       "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip
"""A rod on the flange, with a round tip."""
DOWN = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
"""Of a tool that points down, its x as that of the world."""


def turned(yaw: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the rotation about the vertical, (3, 3)."""
    c, s = float(np.cos(yaw)), float(np.sin(yaw))
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


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


FREE = "free"
"""Name of the view from where a viewer begins, which every scene has."""


class TaskScene:
    """Tools and things of a cell, in the world.

    Args:
        cell: That is started; in lockstep, or with a loop of its own.

    Attributes:
        cell: The same, for what is not here.
        goal: Of the episode, as its task has drawn it.
        seen: States of arms and things at the instant of :meth:`look`.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.seen: Cell | RecordedMoment = cell
        self.goal: Vector = np.zeros(0)
        self._pictures: RowPictures | None = None
        self._bases = {
            name: Pose(arm.position_base_in_world, arm.rotation_base_in_world)
            for name, arm in cell.descriptions.items()
        }

    @property
    def is_lockstep(self) -> bool:
        """Whether the cell is stepped by hand."""
        return self.cell.config.cell.placement == "inline"

    def draw(self, sizes: Iterable[tuple[int, int]]) -> None:
        """Make what draws pictures of such widths and heights [pixels], before arms move.

        Raises:
            SimulationRefused: If the arms are real.
        """
        if not self.is_lockstep:
            self._pictures = RowPictures(self.cell.config, sizes)

    def look(self, time: float) -> float:
        """Take an instant for what is seen and drawn next.

        Args:
            time: On the cell's clock, now or before [s]. In lockstep it is always now.

        Returns:
            What was taken: the cycle at that instant, or the last one before.
        """
        if self.is_lockstep:
            return self.cell.time
        moment = self.cell.at(time)
        self.show(moment)
        return moment.time

    def show(self, moment: RecordedMoment) -> None:
        """Take what the loop recorded for what is seen and drawn next; not in lockstep."""
        self.seen = moment
        if self._pictures is not None:
            self._pictures.show(moment.row)

    def image(self, camera: str, width: int, height: int) -> Image:
        """Return a picture of the instant that was looked at, (height, width, 3).

        Raises:
            UnknownName: If the scene has no such camera.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        view = None if camera == FREE else camera
        if self._pictures is not None:
            return self._pictures.image(view, width, height)
        return self.cell.simulation.image(view, width, height, plain=True)

    def close(self) -> None:
        """Let go of what draws pictures; safe to call twice."""
        if self._pictures is not None:
            self._pictures.close()

    def tool(self, arm: str) -> Pose:
        """Return where a tool is measured to be.

        Raises:
            UnknownName: If there is no such arm; other questions about one likewise.
        """
        return self._base(arm) @ self.cell.pose(arm)

    def force(self, arm: str) -> Vector:
        """Return the force that a tool feels, in the world, (3,) [N]."""
        felt: Vector = self._base(arm).rotation @ self.cell.state(arm).wrench_ext_in_base[:3]
        return felt

    def in_base(self, arm: str, pose_in_world: Pose) -> Pose:
        """Return a pose in the base of an arm."""
        return self._base(arm).inverse() @ pose_in_world

    def thing(self, name: str) -> Pose:
        """Return where a movable thing is.

        Raises:
            UnknownName: If there is none that the cell knows of, as with real arms.
        """
        things = self.cell.objects()
        if name not in things:
            raise UnknownName("movable thing", name, tuple(things))
        return things[name]

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """Return how far two points are from each other [m]."""
        return float(np.linalg.norm(np.subtract(first, second)))

    def opening(self, arm: str) -> float:
        """Return how far a hand is open, 0 to 1; 1 where there is none."""
        self._base(arm)
        hand = self.cell.descriptions[arm].gripper
        return 1.0 if hand is None else self.cell.gripper(arm).state().width / hand.max_width

    def place(self, name: str, pose: Pose) -> None:
        """Put a movable thing somewhere, at rest; takes effect with the next cycle.

        Raises:
            SimulationRefused: If the arms are real: somebody has to do it by hand.
        """
        if self.is_lockstep:
            self.cell.simulation.set_pose(name, pose)
            return
        if reason := self.cell.world.refusal():
            raise SimulationRefused(f"{name} is put by hand: {reason}")
        number = self.cell.world.ask_pose(name, pose)
        self.cell.wait(
            lambda: self.cell.world.is_placed(name, number), 2.0, f"{name} in its place"
        )

    def _base(self, arm: str) -> Pose:
        if arm not in self._bases:
            raise UnknownName("arm", arm, tuple(self._bases))
        return self._bases[arm]
