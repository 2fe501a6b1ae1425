# SPDX-License-Identifier: Apache-2.0
"""The door to the simulation of an inline cell: look, push, change, save and go back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.grippers import Grippers
from multipanda_py.cell.names import CellNames
from multipanda_py.exceptions import SimulationRefused
from multipanda_py.loop.loop_state import LoopState
from multipanda_py.pose import Pose
from multipanda_py.state import Vector

if TYPE_CHECKING:
    import mujoco

    from multipanda_py.backends.mujoco import Mujoco
    from multipanda_py.simulation.world import World
    from multipanda_py.view.rendering import Camera, Image, Renderer


@dataclass(frozen=True)
class SimulationState:
    """A state that :meth:`Simulation.reset` goes back to; for its own cell, while it is started.

    Attributes:
        loop: Of the loop and the world.
        time: Of the world [s].
        started: Which start of the cell it belongs to.
    """

    loop: LoopState
    time: float
    started: int


class Simulation:
    """The world of a cell whose loop is stepped by hand.

    Bodies are named as in :class:`.World`. What is asked here is the truth: without noise, delay
    or tare, which are on the way to :meth:`.Cell.state`. All arms have to be simulated by
    ``mujoco``.

    Args:
        names: Of the cell's arms.
        connection: To its loop.
        grippers: Of its arms.

    Thread: the one that steps the cell.
    """

    def __init__(self, names: CellNames, connection: Connection, grippers: Grippers) -> None:
        self._names, self._connection, self._grippers = names, connection, grippers
        self._renderers: dict[tuple[int, int, bool], Renderer] = {}

    def check(self) -> None:
        """Refuse if this cell has no world that may be touched.

        Raises:
            SimulationRefused: With what was got, and what is allowed.
            LoopError: If the cell is not started.
        """
        config = self._names.config
        if config.cell.placement != "inline":
            raise SimulationRefused(
                f"simulation: got cell.placement: {config.cell.placement}, allowed inline: a loop "
                "that runs by itself shares its world with nobody"
            )
        for name, arm in config.arms.items():
            if arm.backend != "mujoco":
                raise SimulationRefused(
                    f"simulation: arms.{name}.backend: got {arm.backend}, allowed mujoco for all"
                )
        self._connection.check()

    @property
    def time(self) -> float:
        """Time of the world [s]."""
        return float(self._backend.data.time)

    @property
    def model(self) -> mujoco.MjModel:
        """MuJoCo's model, for what there is no method for."""
        return self._backend.model

    @property
    def data(self) -> mujoco.MjData:
        """MuJoCo's data, for what there is no method for."""
        return self._backend.data

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of all bodies."""
        return self._world.bodies

    @property
    def is_random(self) -> bool:
        """Whether a seed changes anything: else every run with the same requests is the same."""
        return any(drive.is_random for drive in self._backend.drives)

    def contact_force(self, body: str, other: str | None = None) -> Vector:
        """Return what ``other``, or everything, exerts on a body, (3,) [N], in the world."""
        return self._world.contact_force(body, other)

    def pose(self, body: str) -> Pose:
        """Return where a body is in the world."""
        return self._world.pose(body)

    def set_pose(self, body: str, pose: Pose, twist: ArrayLike = (0.0,) * 6) -> None:
        """Put a thing of the cell file somewhere else: see :meth:`.World.set_pose`."""
        self._world.set_pose(body, pose, twist)

    def apply_wrench(
        self,
        body: str,
        force: ArrayLike = (0.0, 0.0, 0.0),
        torque: ArrayLike = (0.0, 0.0, 0.0),
        point: ArrayLike | None = None,
    ) -> None:
        """Push a body until it is told otherwise: see :meth:`.World.apply_wrench`."""
        self._world.apply_wrench(body, force, torque, point)

    def set_friction(self, body: str, sliding: float) -> None:
        """Change the coefficient of sliding friction: see :meth:`.World.set_friction`."""
        self._world.set_friction(body, sliding)

    def scale_inertia(self, body: str, factor: float) -> None:
        """Make a body heavier or lighter than described: see :meth:`.World.scale_inertia`."""
        self._world.scale_inertia(body, factor)

    def save(self) -> SimulationState:
        """Return the state of now; what is in it is said by :class:`.LoopState`."""
        state = self._connection.loop.save()
        return SimulationState(state, self.time, self._connection.started_ns)

    def reset(self, state: SimulationState | None = None, *, seed: int | None = None) -> None:
        """Go back to a saved state, or to the start, in less than a millisecond.

        Time, motion, contacts, pushes, poses of things and noise are as they were: the same
        requests give the same run again, bit by bit. Laws that were active start anew there, with
        the measured state for a target; friction, inertia, parameters, settings of robots and
        tares stay as they are now. Gripper motions that are under way end.

        Args:
            state: From :meth:`save`; the start if None.
            seed: Noise is drawn anew from this, the same for the same number; None is the noise
                that followed then.

        Raises:
            SimulationRefused: If the state is none, another cell's, or from before its last
                start, or the seed is no whole number.
        """
        if state is not None and not isinstance(state, SimulationState):
            raise SimulationRefused(
                f"reset: state: got {state!r:.60}, allowed what save() returns"
            )
        if state is not None and state.started != self._connection.started_ns:
            raise SimulationRefused(
                "reset: got a state of another cell or another start, allowed one of this start"
            )
        if seed is not None and not _is_whole(seed, 0):
            raise SimulationRefused(
                f"reset: seed: got {seed!r:.60}, allowed 0 or more, a whole number"
            )
        self._grippers.end_motions("the simulation was set back")
        self._connection.load(None if state is None else state.loop, seed)

    def image(
        self, camera: Camera = None, width: int = 640, height: int = 480, *, plain: bool = False
    ) -> Image:
        """Return a picture of the world, (height, width, 3): see :meth:`.Renderer.frame`.

        ``plain`` leaves out shadows and smooth edges, which is much faster without a GPU.

        Raises:
            UnknownName: If the scene has no such camera.
            SimulationRefused: If a length is no whole number.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        from multipanda_py.view.rendering import Renderer

        for name, length in (("width", width), ("height", height)):
            if not _is_whole(length, 1):
                raise SimulationRefused(
                    f"image: {name}: got {length!r:.60}, allowed 1 or more pixels, a whole number"
                )
        kind = (width, height, plain)
        if kind not in self._renderers:
            self._renderers[kind] = Renderer(self.model, width, height, plain=plain)
        return self._renderers[kind].frame(self.data, camera)

    def close(self) -> None:
        """Let go of what draws the pictures; safe to call twice."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    @property
    def _backend(self) -> Mujoco:
        self.check()
        return cast("Mujoco", self._connection.loop.backends[0])

    @property
    def _world(self) -> World:
        return self._backend.world


def _is_whole(value: object, least: int) -> bool:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_number and value >= least  # type: ignore[operator]
