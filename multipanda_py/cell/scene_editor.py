# SPDX-License-Identifier: Apache-2.0
"""Which things are in the simulated scene: brought in and taken out while arms go on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from multipanda_py.cell.arm_request import given_up, wait_or_withdraw
from multipanda_py.cell.connection import Connection
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.config.describe import first_real_arm, movable_things, surroundings
from multipanda_py.exceptions import SimulationRefused, UnknownName
from multipanda_py.pose import Pose
from multipanda_py.realtime.shared_memory import ENTRY, Change, Entry
from multipanda_py.state import Vector

ENTRY_TIMEOUT = 2.0
"""Far longer than the loop takes to answer [s]."""
AT_REST = (0.0,) * 6


@dataclass(frozen=True)
class EntryRequest:
    """What the loop has been asked to bring into the scene, out of it, or elsewhere.

    Attributes:
        thing: Its name.
        change: What is to become of it.
        number: Of the record.
    """

    thing: str
    change: Change
    number: int


class Entries:
    """Let movable things of the cell file come and go, at a boundary between two cycles.

    All of them are in the simulated world from the start; the absent ones weigh nothing, touch
    nothing and are parked where nobody looks. So the loop keeps its pace, and every law knows
    beforehand what may come.

    Args:
        names: Of the cell's arms.
        connection: To its loop.
        reader: Of its states.

    Thread: of the cell's owner.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._movable = movable_things(names.config)
        self._around = surroundings(names.config)

    @property
    def absent(self) -> tuple[str, ...]:
        """Names of movable things that are not in the scene now."""
        there = self._reader.objects()
        return tuple(name for name in self._movable if name not in there)

    def absent_like(self, thing: str) -> str:
        """Return the first absent thing that differs from another only in its place, or ''."""
        own = self._names.config.objects
        same = {"present": True, "position": [0.0] * 3, "rpy": [0.0] * 3}
        model = own[thing].model_copy(update=same) if thing in own else None
        found = (name for name in self.absent if own[name].model_copy(update=same) == model)
        return next(found, "")

    def spawn(self, thing: str, pose: Pose | None = None, twist: ArrayLike = AT_REST) -> None:
        """Bring an absent thing into the scene.

        Args:
            thing: Its name in ``objects`` of the cell file, where it has a mass.
            pose: In the world; by default as the cell file has it.
            twist: Linear velocity, and angular velocity in its own axes, (6,) [m/s, rad/s].

        Raises:
            UnknownName: If there is no such thing that moves.
            SimulationRefused: If it is there already, it would be more than 1 mm inside an arm, a
                thing or the floor, not all arms are simulated, or pose or twist are none.
            LoopTimeout: If the loop did not answer in time.
        """
        self._change(thing, self._entry(thing, pose, twist))

    def remove(self, thing: str) -> None:
        """Take a thing out of the scene; what rests on it falls.

        Raises:
            UnknownName: If there is no such thing that moves.
            SimulationRefused: If it is absent, a hand holds it, or not all arms are simulated.
            LoopTimeout: If the loop did not answer in time.
        """
        self._change(thing, self._exit(thing))

    def ask_spawn(
        self, thing: str, pose: Pose | None = None, twist: ArrayLike = AT_REST
    ) -> EntryRequest:
        """Do as :meth:`spawn` and return at once; see :meth:`answer`."""
        return self._ask(thing, self._entry(thing, pose, twist))

    def ask_remove(self, thing: str) -> EntryRequest:
        """Do as :meth:`remove` and return at once; see :meth:`answer`."""
        return self._ask(thing, self._exit(thing))

    def ask_move(self, thing: str, pose: Pose, twist: ArrayLike = AT_REST) -> EntryRequest:
        """Ask to put a thing that is there elsewhere, as for :meth:`spawn`; see :meth:`answer`.

        It is refused if it would be more than 1 mm inside an arm.
        """
        return self._ask(thing, self._entry(thing, pose, twist, Change.MOVE))

    def answer(self, request: EntryRequest) -> bool:
        """Return whether it is so now.

        Raises:
            SimulationRefused: If the loop refuses, or a newer request has replaced this one.
        """
        index = self._movable.index(request.thing)
        answer = self._connection.mailbox.entry_answers[index].newest()
        if answer is None or answer[0] < request.number:
            return False
        if answer[0] > request.number:
            raise SimulationRefused(f"{request.thing}: a newer request has replaced this one")
        self._look(request.thing, request.change, answer[1:])
        is_there = request.thing in self._reader.objects()
        return is_there == (request.change is not Change.REMOVE)  # in the newest row too

    def withdraw(self, request: EntryRequest) -> str:
        """Give a request up; return in words whether it still may come about."""
        slot = self._connection.mailbox.entries[self._movable.index(request.thing)]
        what = request.change.name.lower()
        return given_up(self._connection.withdraw(slot, request.number, what))

    def _change(self, thing: str, record: Vector) -> None:
        if self._names.config.cell.placement == "inline":
            answer = self._connection.loop.change_thing(record)
            self._look(thing, Change(int(record[0])), np.array(answer))
            return
        request = self._ask(thing, record)
        wait_or_withdraw(
            self._connection,
            lambda: self.answer(request) or None,
            lambda: self.withdraw(request),
            ENTRY_TIMEOUT,
            f"an answer about {thing}",
        )

    def _ask(self, thing: str, record: Vector) -> EntryRequest:
        slot = self._connection.mailbox.entries[self._movable.index(thing)]
        return EntryRequest(thing, Change(int(record[0])), self._connection.post(slot, record))

    def _entry(
        self, thing: str, pose: Pose | None, twist: ArrayLike, change: Change = Change.SPAWN
    ) -> Vector:
        self._check(change, thing)
        own = self._names.config.objects[thing]
        place = Pose.from_rpy(own.position, own.rpy) if pose is None else pose
        if not isinstance(place, Pose):
            raise SimulationRefused(f"{thing}: pose: got {pose!r:.60}, allowed a Pose")
        motion = checked_twist(thing, twist)
        index = self._movable.index(thing)
        return np.array([change, index, *place.position, *place.quaternion_xyzw, *motion])

    def _exit(self, thing: str) -> Vector:
        self._check(Change.REMOVE, thing)
        record = np.zeros(ENTRY)
        record[1] = self._movable.index(thing)
        return record

    def _check(self, change: Change, thing: str) -> None:
        what = change.name.lower()
        if real := first_real_arm(self._names.config):
            raise SimulationRefused(f"{what}: got {real}, allowed simulated ones")
        if thing not in self._movable:
            raise UnknownName("thing that moves", thing, tuple(self._movable))

    def _look(self, thing: str, change: Change, answer: Vector) -> None:
        """Raise what the loop refuses."""
        what = change.name.lower()
        outcome, other = Entry(int(answer[0])), self._around[int(answer[1])]
        if outcome is Entry.PRESENT:
            raise SimulationRefused(
                f"spawn: got {thing}, which is in the scene, allowed absent things: "
                f"{', '.join(self.absent) or 'there are none'}"
            )
        if outcome is Entry.ABSENT:
            already = " already" if change is Change.REMOVE else ", allowed what is in the scene"
            raise SimulationRefused(f"{what}: got {thing}, which is absent{already}")
        if outcome is Entry.HELD:
            raise SimulationRefused(
                f"remove: got {thing}, which {other} holds, allowed what no hand holds: open the "
                "hand, or detach it"
            )
        if outcome is Entry.INSIDE:
            raise SimulationRefused(
                f"{what}: {thing} would be inside {other}: got {1e3 * answer[2]:.1f} mm, allowed "
                "1 mm"
            )


def checked_twist(thing: str, twist: ArrayLike) -> Vector:
    """Return a twist, (6,) [m/s, rad/s].

    Raises:
        SimulationRefused: If it is none.
    """
    try:
        motion = np.array(twist, dtype=np.float64)
    except (TypeError, ValueError):
        motion = np.zeros(0)
    if motion.shape != (6,) or not np.isfinite(motion).all():
        got = motion.tolist() if motion.size else twist
        raise SimulationRefused(f"{thing}: twist: got {got!r:.60}, allowed 6 finite numbers")
    return motion
