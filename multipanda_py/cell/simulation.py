# SPDX-License-Identifier: Apache-2.0
"""Access to the simulated world of a cell: pause, step, move and push objects, and reset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.grippers import Grippers
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.scene_editor import checked_twist
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import first_arm_without_simulation, movable_objects
from multipanda_py.exceptions import SimulationRejected, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.loop_state import LoopState, save_state
from multipanda_py.realtime.shared_memory import SeqlockBuffer, SharedFlag
from multipanda_py.state import Vector

if TYPE_CHECKING:
    import mujoco

    from multipanda_py.simulation.backend import Mujoco
    from multipanda_py.simulation.rendering import Camera, Image, Renderer
    from multipanda_py.simulation.world import World


MAX_STEPS = 10**9
"""Maximum number of cycles in one request, more than eleven days at 1 kHz."""
_PAUSE_CYCLES = 2
"""Number of cycles from a pause request to the last cycle. The next cycle may have started
already."""


class PacedSimulation:
    """Pause and step a simulated cell whose loop runs in its own process or thread.

    All arms must be simulated. A paused loop executes only requests about objects. Targets time
    out during a pause.

    Thread: owner of the cell.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._objects = movable_objects(names.config)

    def refusal(self) -> str:
        """Return the reason why this cell cannot be paused; empty if it can."""
        config = self._names.config
        if config.cell.placement == "inline":
            return "pause: a cell with cell.placement: inline runs only in cell.step()"
        real = first_arm_without_simulation(config)
        return f"pause: got {real}, allowed simulated arms only" if real else ""

    @property
    def is_paused(self) -> bool:
        """True if a client has paused the simulation."""
        return self._connection.mailbox.is_paused

    @property
    def cycles(self) -> int:
        """Number of cycles so far."""
        return self._connection.mailbox.cycles

    def pause(self) -> int:
        """Pause the simulation, discard requested steps and return the number of the last cycle.

        Raises:
            SimulationRejected: If an arm is not simulated, or the cell is inline.
        """
        if reason := self.refusal():
            raise SimulationRejected(reason)
        self._connection.check()
        words = self._connection.mailbox.words
        soon = self.cycles + _PAUSE_CYCLES
        words[SharedFlag.LAST_ROW] = min(words[SharedFlag.LAST_ROW] or soon, soon)
        return int(words[SharedFlag.LAST_ROW])

    def resume(self) -> None:
        """Resume the simulation in real time."""
        self._connection.check()
        self._connection.mailbox.words[SharedFlag.LAST_ROW] = 0

    def request_steps(self, cycles: int) -> int:
        """Let a paused simulation run for a number of cycles; return the number of the last cycle.

        Raises:
            SimulationRejected: If the simulation is not paused, or ``cycles`` is out of range.
        """
        if not 1 <= cycles <= MAX_STEPS:
            raise SimulationRejected(f"steps: got {cycles}, allowed 1 to {MAX_STEPS}")
        if not self.is_paused:
            raise SimulationRejected("steps: the simulation is running. Pause it first")
        words = self._connection.mailbox.words
        words[SharedFlag.LAST_ROW] = max(words[SharedFlag.LAST_ROW], self.cycles) + cycles
        return int(words[SharedFlag.LAST_ROW])

    def request_pose(self, object_name: str, pose: Pose, twist: ArrayLike = (0.0,) * 6) -> int:
        """Request to move an object in the next cycle; return the number for :meth:`is_placed`.

        Args:
            object_name: Name of an object with a mass; objects without a mass are fixed.
            pose: Pose in the world.
            twist: Linear velocity in the world [m/s], and angular velocity in the axes of the
                object [rad/s], (6,).

        Raises:
            UnknownName: If there is no such movable object.
            SimulationRejected: If an arm is not simulated, the cell is inline, the object is
                absent, or the twist is invalid.
        """
        if reason := self.refusal():
            raise SimulationRejected(reason)
        if object_name not in self._objects:
            raise UnknownName("movable object", object_name, tuple(self._objects))
        motion = checked_twist(object_name, twist)
        if object_name not in self._reader.objects():
            raise SimulationRejected(f"{object_name}: the object is absent. Spawn it first")
        index = self._objects.index(object_name)
        values = (*pose.position, *pose.quaternion_xyzw, *motion)
        return self._connection.post(self._slot(object_name), np.array([index, *values]))

    def is_placed(self, object_name: str, number: int) -> bool:
        """Return True if the loop has received a request of :meth:`request_pose`."""
        return self._slot(object_name).taken >= number

    def _slot(self, object_name: str) -> SeqlockBuffer:
        return self._connection.mailbox.placed[self._objects.index(object_name)]


@dataclass(frozen=True)
class SimulationState:
    """Saved state for :meth:`InlineSimulation.reset`, valid until the cell is closed.

    Attributes:
        loop: State of the loop and the simulated world.
        time: Simulated time [s].
        started: Start time of the cell [ns], CLOCK_MONOTONIC.
    """

    loop: LoopState
    time: float
    started: int


class InlineSimulation:
    """Simulated world of an inline cell whose arms all have the backend ``mujoco``.

    Results are exact, in contrast to :meth:`.Cell.state`, which includes sensor noise, delay and
    tare. :class:`.World` defines body names.

    Thread: the one that steps the cell.
    """

    def __init__(self, names: CellNames, connection: Connection, grippers: Grippers) -> None:
        self._names, self._connection, self._grippers = names, connection, grippers
        self._renderers: dict[tuple[int, int, bool], Renderer] = {}

    def check(self) -> None:
        """Check that this cell provides access to its simulated world.

        Raises:
            SimulationRejected: If the cell is not inline, or the backend of an arm is not
                ``mujoco``.
            LoopError: If the cell is not started.
        """
        config = self._names.config
        if config.cell.placement != "inline":
            raise SimulationRejected(
                f"simulation: got cell.placement: {config.cell.placement}, allowed inline, "
                "because the loop must not run at the same time"
            )
        for name, arm in config.arms.items():
            if arm.backend != "mujoco":
                raise SimulationRejected(
                    f"simulation: arms.{name}.backend: got {arm.backend}, allowed mujoco for all "
                    "arms"
                )
        self._connection.check()

    @property
    def time(self) -> float:
        """Simulated time [s]."""
        return float(self._backend.data.time)

    @property
    def model(self) -> mujoco.MjModel:
        """MuJoCo model of the world."""
        return self._backend.model

    @property
    def data(self) -> mujoco.MjData:
        """MuJoCo data of the world."""
        return self._backend.data

    @property
    def bodies(self) -> tuple[str, ...]:
        """Names of all bodies."""
        return self._world.bodies

    @property
    def is_random(self) -> bool:
        """True if the simulation has random noise, which depends on the seed of :meth:`reset`."""
        return any(drive.is_random for drive in self._backend.drives)

    def contact_force(self, body: str, other: str | None = None) -> Vector:
        """Return the contact force on a body in the world frame, (3,) [N].

        Args:
            body: Name of the body.
            other: Name of the body that exerts the force; all bodies by default.
        """
        return self._world.contact_force(body, other)

    def pose(self, body: str) -> Pose:
        """Return the pose of a body in the world."""
        return self._world.pose(body)

    def set_pose(self, body: str, pose: Pose, twist: ArrayLike = (0.0,) * 6) -> None:
        """Move an object of the cell file to a pose. See :meth:`.World.set_pose`."""
        self._world.set_pose(body, pose, twist)

    def apply_wrench(
        self,
        body: str,
        force: ArrayLike = (0.0, 0.0, 0.0),
        torque: ArrayLike = (0.0, 0.0, 0.0),
        point: ArrayLike | None = None,
    ) -> None:
        """Apply a wrench to a body until the next call. See :meth:`.World.apply_wrench`."""
        self._world.apply_wrench(body, force, torque, point)

    def set_friction(self, body: str, sliding: float) -> None:
        """Set the coefficient of sliding friction of a body. See :meth:`.World.set_friction`."""
        self._world.set_friction(body, sliding)

    def scale_inertia(self, body: str, factor: float) -> None:
        """Scale mass and inertia of a body. See :meth:`.World.scale_inertia`."""
        self._world.scale_inertia(body, factor)

    def save(self) -> SimulationState:
        """Return the present state for :meth:`reset`. See :class:`.LoopState`."""
        state = save_state(self._connection.loop)
        return SimulationState(state, self.time, self._connection.started_ns)

    def reset(self, state: SimulationState | None = None, *, seed: int | None = None) -> None:
        """Restore a saved state or the initial one.

        Equal requests then give bitwise equal results. Controllets that were active restart with
        the measured state as target. Friction, inertia, parameters, robot settings and tares do
        not change. Gripper motions are aborted.

        Args:
            state: State from :meth:`save`; None for the initial state.
            seed: Seed of new noise; None to repeat the noise that followed the saved state.

        Raises:
            SimulationRejected: If the state is from another cell or from before the last start of
                this cell, or the seed is not a non-negative integer.
        """
        if state is not None and not isinstance(state, SimulationState):
            raise SimulationRejected(
                f"reset: state: got {state!r:.60}, allowed a result of save()"
            )
        if state is not None and state.started != self._connection.started_ns:
            raise SimulationRejected(
                "reset: the state belongs to another cell, or was saved before this cell was "
                "started. Save a new state"
            )
        if seed is not None and not _is_whole(seed, 0):
            raise SimulationRejected(f"reset: seed: got {seed!r:.60}, allowed an integer >= 0")
        self._grippers.end_motions("the simulation was reset")
        self._connection.load(None if state is None else state.loop, seed)

    def image(
        self, camera: Camera = None, width: int = 640, height: int = 480, *, plain: bool = False
    ) -> Image:
        """Return an image of the world, (height, width, 3). See :meth:`.Renderer.frame`.

        Args:
            camera: Name or index of a camera of the scene, or a free camera; None for the default
                view.
            width: Width [pixels].
            height: Height [pixels].
            plain: True to render without shadows and anti-aliasing.

        Raises:
            UnknownName: If the scene has no such camera.
            SimulationRejected: If width or height is not a positive integer.
            RenderingUnavailable: If there is no off-screen OpenGL.
        """
        from multipanda_py.simulation.rendering import Renderer

        for name, length in (("width", width), ("height", height)):
            if not _is_whole(length, 1):
                raise SimulationRejected(
                    f"image: {name}: got {length!r:.60}, allowed an integer >= 1 [pixels]"
                )
        kind = (width, height, plain)
        if kind not in self._renderers:
            self._renderers[kind] = Renderer(self.model, width, height, plain=plain)
        return self._renderers[kind].frame(self.data, camera)

    def close(self) -> None:
        """Release the renderers. It is safe to call this twice."""
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


def _is_whole(value: object, min_value: int) -> bool:
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    return is_number and value >= min_value  # type: ignore[operator]
