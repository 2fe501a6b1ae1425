# SPDX-License-Identifier: Apache-2.0
"""The simulated world of a loop that runs by itself: pause, steps, things put elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.connection import Connection
from multipanda_py.cell.entries import checked_twist
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import first_real_arm, movable_things
from multipanda_py.exceptions import SimulationRefused, UnknownName
from multipanda_py.loop.mailbox import Word
from multipanda_py.loop.slot import Slot
from multipanda_py.pose import Pose

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
