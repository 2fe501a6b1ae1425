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
from multipanda_py.cell.scene_editor import checked_twist
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import first_real_arm, movable_things
from multipanda_py.exceptions import SimulationRefused, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.loop_state import LoopState
from multipanda_py.realtime.shared_memory import Slot, Word
from multipanda_py.state import Vector

if TYPE_CHECKING:
    import mujoco

    from multipanda_py.simulation.backend import Mujoco
    from multipanda_py.simulation.rendering import Camera, Image, Renderer
    from multipanda_py.simulation.world import World


MOST_STEPS = 10**9
"""Cycles that may be asked for at once: eleven days at 1 kHz."""
_AHEAD = 2
"""Cycles from a pause that is asked for to the last one: the loop may be in the next already."""


class RunningWorld:
    """Stop the time of a cell whose arms are all simulated, and let it go on.

    A loop that is paused reads no mail but about things: targets are refused, and requests are
    withdrawn, with the reason. After it targets are stale to laws that have a ``target_timeout``,
    which is of the machine's time.

    Args:
        names: Of the cell's arms.
        connection: To its loop.
        reader: Of its states.

    Thread: of the cell's owner.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._things = movable_things(names.config)

    def refusal(self) -> str:
        """Say why the time of this cell cannot be stopped; empty if it can."""
        config = self._names.config
        if config.cell.placement == "inline":
            return "pause: got cell.placement: inline, which is stepped by hand: cell.step()"
        real = first_real_arm(config)
        return f"pause: got {real}, allowed simulated ones" if real else ""

    @property
    def is_paused(self) -> bool:
        """Whether the world stands still because somebody has asked for it."""
        return self._connection.mailbox.is_paused

    @property
    def cycles(self) -> int:
        """How many cycles there were."""
        return self._connection.mailbox.cycles

    def pause(self) -> int:
        """Stop the time; return the number of cycles after which it stands still.

        Steps that are not done yet are left.

        Raises:
            SimulationRefused: If not all arms are simulated, or the cell is inline.
        """
        if reason := self.refusal():
            raise SimulationRefused(reason)
        self._connection.check()
        words = self._connection.mailbox.words
        soon = self.cycles + _AHEAD
        words[Word.LAST_ROW] = min(words[Word.LAST_ROW] or soon, soon)
        return int(words[Word.LAST_ROW])

    def resume(self) -> None:
        """Let the time go on, at its pace."""
        self._connection.check()
        self._connection.mailbox.words[Word.LAST_ROW] = 0

    def ask_steps(self, cycles: int) -> int:
        """Have a paused world do some cycles; return how many there will have been.

        Raises:
            SimulationRefused: If it is not paused, or the number is not allowed.
        """
        if not 1 <= cycles <= MOST_STEPS:
            raise SimulationRefused(f"steps: got {cycles}, allowed 1 to {MOST_STEPS}")
        if not self.is_paused:
            raise SimulationRefused("steps: got a simulation that runs, allowed a paused one")
        words = self._connection.mailbox.words
        words[Word.LAST_ROW] = max(words[Word.LAST_ROW], self.cycles) + cycles
        return int(words[Word.LAST_ROW])

    def ask_pose(self, thing: str, pose: Pose, twist: ArrayLike = (0.0,) * 6) -> int:
        """Put a thing somewhere else at the next cycle; return the number of the request.

        Args:
            thing: One that has a mass; laws that keep clear of what stands still have it where the
                cell file says.
            pose: In the world.
            twist: Linear velocity, and angular velocity in its own axes, (6,) [m/s, rad/s].

        Raises:
            UnknownName: If there is no such thing that moves.
            SimulationRefused: If not all arms are simulated, the cell is inline, the thing is
                absent, or the twist is not finite.
        """
        if reason := self.refusal():
            raise SimulationRefused(reason)
        if thing not in self._things:
            raise UnknownName("thing that moves", thing, tuple(self._things))
        motion = checked_twist(thing, twist)
        if thing not in self._reader.objects():
            raise SimulationRefused(f"{thing}: got an absent thing, allowed what is in the scene")
        index = self._things.index(thing)
        place = (*pose.position, *pose.quaternion_xyzw, *motion)
        return self._connection.post(self._slot(thing), np.array([index, *place]))

    def is_placed(self, thing: str, number: int) -> bool:
        """Return whether the loop has taken a request of :meth:`ask_pose`."""
        return self._slot(thing).taken >= number

    def _slot(self, thing: str) -> Slot:
        return self._connection.mailbox.placed[self._things.index(thing)]


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
        from multipanda_py.simulation.rendering import Renderer

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
