# SPDX-License-Identifier: Apache-2.0
"""What tasks see of a cell, and where they put things before an episode."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.cell import Cell
from multipanda_py.cell.moment import RecordedMoment
from multipanda_py.exceptions import SimulationRefused, UnknownName
from multipanda_py.gym.pictures import RowPictures
from multipanda_py.pose import Pose
from multipanda_py.state import Vector
from multipanda_py.view.rendering import Image

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
