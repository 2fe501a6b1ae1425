# SPDX-License-Identifier: Apache-2.0
"""Scene of a task: tool and object poses, placement of objects, and camera images."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from multipanda_py.cell.cell import Cell
from multipanda_py.cell.state_reader import HistorySnapshot
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.describe import first_arm_without_simulation
from multipanda_py.exceptions import ConfigurationError, SimulationRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.system.child_process import Closeable
from multipanda_py.simulation.rendering import Image, Renderer
from multipanda_py.simulation.scene_view import SceneView
from multipanda_py.state import Vector

TABLE_HEIGHT = 0.2
"""Height of the table top above the ground [m]."""
TABLE = {"shape": "box", "size": [0.25, 0.4, 0.1], "position": [0.5, 0.0, 0.1],
         "rgba": [0.72, 0.6, 0.45, 1.0]}  # fmt: skip
ROD = {"mass": 0.2, "com": [0.0, 0.0, 0.05], "position": [0.0, 0.0, 0.12],
       "inertia": [1e-3, 1e-3, 1e-3, 0.0, 0.0, 0.0]}  # fmt: skip
"""Section of a tool: rod with a round tip, mounted on the flange."""
TOOL_DOWN = np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
"""Orientation of a tool that points down, with its x axis along that of the world frame."""


def turned(yaw: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return the rotation matrix of an angle [rad] about the vertical axis, (3, 3)."""
    c, s = float(np.cos(yaw)), float(np.sin(yaw))
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


DEFAULT_IMAGE_SIZE = (128, 128)
"""Default height and width of images [pixels]."""


def sizes_of(cameras: Sequence[str] | Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """Return height and width of the images [pixels], by camera.

    Args:
        cameras: Height and width by camera [pixels]. A list of names selects
            :data:`DEFAULT_IMAGE_SIZE` for all of them.

    Raises:
        ConfigurationError: If ``cameras`` contains neither names nor sizes in whole pixels.
    """
    value: Any = cameras
    try:
        sizes = (
            dict(value) if isinstance(value, Mapping) else dict.fromkeys(value, DEFAULT_IMAGE_SIZE)
        )
        result = {
            name: (operator.index(height), operator.index(width))
            for name, (height, width) in sizes.items()
        }
    except (TypeError, ValueError):
        result = {"": (0, 0)}
    if isinstance(value, str) or any(
        not isinstance(name, str) or min(size) < 1 for name, size in result.items()
    ):
        raise ConfigurationError(
            f"cameras: got {cameras!r:.60}, allowed a list of camera names, or a mapping from "
            "names to (height, width), whole numbers from 1"
        )
    return result


class RecordRenderer(Closeable):
    """Renderer of camera images of a real-time simulation, from states that the loop has recorded.

    Create it before arms move, because moving arms would stop without targets meanwhile.

    Args:
        config: Configuration of the running cell with simulated arms.
        sizes: Widths and heights of the images to render [pixels].

    Raises:
        SimulationRejected: If an arm is real, since its surroundings are unknown.
        RenderingUnavailable: If there is no off-screen OpenGL.

    Thread: one, always the same.
    """

    def __init__(self, config: CellConfig, sizes: Iterable[tuple[int, int]]) -> None:
        if real := first_arm_without_simulation(config):
            raise SimulationRejected(
                f"cameras: arm {real} is not simulated. Images need simulated arms."
            )
        self._view = SceneView(config)
        self._renderers: dict[tuple[int, int], Renderer] = {}
        for width, height in sizes:
            self.image(None, width, height)

    def show(self, record: NDArray[np.void]) -> None:
        """Set the recorded state that the next images show."""
        self._view.show(record)

    def image(self, camera: str | None, width: int, height: int) -> Image:
        """Render an image, (height, width, 3).

        Args:
            camera: Name of the camera; None for the free view.
            width: Width [pixels].
            height: Height [pixels].

        Raises:
            UnknownName: If the scene has no such camera.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        size = (width, height)
        if size not in self._renderers:
            self._renderers[size] = Renderer(self._view.model, width, height, plain=True)
        return self._renderers[size].frame(self._view.data, camera)

    def close(self) -> None:
        """Release the renderers. Repeated calls have no effect."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()


FREE_VIEW = "free"
"""Name of a camera that every scene has: the view with which the viewer starts."""


class TaskScene:
    """Tools and objects of a cell in the world frame.

    Args:
        cell: Running cell in lockstep or in real time.

    Attributes:
        cell: Cell of the scene.
        goal: Goal of the episode, as returned by :meth:`.GymTask.reset`.
        observed_state: State for observations and images: the cell itself in lockstep, in real
            time the recorded state that :meth:`observe` or :meth:`show` has selected.
    """

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.observed_state: Cell | HistorySnapshot = cell
        self.goal: Vector = np.zeros(0)
        self._images: RecordRenderer | None = None
        self._bases = {
            name: Pose(arm.position_base_in_world, arm.rotation_base_in_world)
            for name, arm in cell.descriptions.items()
        }

    @property
    def is_lockstep(self) -> bool:
        """True if the cell advances only in steps, False if it runs in real time."""
        return self.cell.config.cell.placement == "inline"

    def draw(self, sizes: Iterable[tuple[int, int]]) -> None:
        """Prepare camera images of a real-time cell, before arms move; no effect in lockstep.

        Args:
            sizes: Widths and heights of the images to render [pixels].

        Raises:
            SimulationRejected: If an arm is real, since its surroundings are unknown.
        """
        if not self.is_lockstep:
            self._images = RecordRenderer(self.cell.config, sizes)

    def observe(self, time: float) -> float:
        """Select the state for the next observation and its images, by time.

        Args:
            time: Current or past cell time [s]. In lockstep, the current time is used.

        Returns:
            Cell time of the selected state, the last one at or before ``time`` [s].
        """
        if self.is_lockstep:
            return self.cell.time
        moment = self.cell.snapshot_at(time)
        self.show(moment)
        return moment.time

    def show(self, moment: HistorySnapshot) -> None:
        """Select a recorded state of a real-time cell for the next observation and its images."""
        self.observed_state = moment
        if self._images is not None:
            self._images.show(moment.record)

    def image(self, camera: str, width: int, height: int) -> Image:
        """Render an image of the selected state, (height, width, 3), with sizes in pixels.

        Raises:
            UnknownName: If the scene has no such camera.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        view = None if camera == FREE_VIEW else camera
        if self._images is not None:
            return self._images.image(view, width, height)
        return self.cell.simulation.image(view, width, height, plain=True)

    def close(self) -> None:
        """Release the renderers. Repeated calls have no effect."""
        if self._images is not None:
            self._images.close()

    def tool_pose(self, arm: str) -> Pose:
        """Return the measured tool pose of an arm in the world frame.

        Raises:
            UnknownName: If the arm does not exist.
        """
        return self._base(arm) @ self.cell.pose(arm)

    def force(self, arm: str) -> Vector:
        """Return the estimated external force on a tool along the world axes, (3,) [N]."""
        measured: Vector = self._base(arm).rotation @ self.cell.state(arm).wrench_ext_in_base[:3]
        return measured

    def in_base(self, arm: str, pose_in_world: Pose) -> Pose:
        """Transform a pose from the world frame to the base frame of an arm."""
        return self._base(arm).inverse() @ pose_in_world

    def object_pose(self, name: str) -> Pose:
        """Return the pose of a movable object in the world frame.

        Raises:
            UnknownName: If the object does not exist, or is not simulated, as with real arms.
        """
        objects = self.cell.objects()
        if name not in objects:
            raise UnknownName("movable object", name, tuple(objects))
        return objects[name]

    def distance(self, first: ArrayLike, second: ArrayLike) -> float:
        """Return the distance between two points, (3,) each [m]."""
        return float(np.linalg.norm(np.subtract(first, second)))

    def gripper_opening(self, arm: str) -> float:
        """Return the opening of an arm's gripper from 0 to 1, or 1 if the arm has no gripper."""
        self._base(arm)
        hand = self.cell.descriptions[arm].gripper
        return 1.0 if hand is None else self.cell.gripper(arm).state().width / hand.max_width

    def set_object_pose(self, name: str, pose: Pose) -> None:
        """Set the pose of a movable object in the world frame, and its velocity to zero.

        In real time, the call waits until the object has this pose.

        Raises:
            SimulationRejected: If the arms are real. A person has to place the object.
        """
        if self.is_lockstep:
            self.cell.simulation.set_pose(name, pose)
            return
        if reason := self.cell.world.refusal():
            raise SimulationRejected(
                f"{name}: only a simulation can set object poses. Place the object by hand. "
                f"({reason})"
            )
        number = self.cell.world.request_pose(name, pose)
        self.cell.wait(
            lambda: self.cell.world.is_placed(name, number), 2.0, f"{name} at its new pose"
        )

    def _base(self, arm: str) -> Pose:
        if arm not in self._bases:
            raise UnknownName("arm", arm, tuple(self._bases))
        return self._bases[arm]
