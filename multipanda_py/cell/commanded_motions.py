# SPDX-License-Identifier: Apache-2.0
"""Which motion each arm was told last, by whomever: whether it still counts, and has begun."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from multipanda_py.cell.connection import Connection
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.controllets.targets.joint import JOINT, TRAJECTORY
from multipanda_py.realtime.scheduled_targets import START
from multipanda_py.realtime.shared_memory import Slot
from multipanda_py.state import Vector

OTHER = {JOINT.name: TRAJECTORY.name, TRAJECTORY.name: JOINT.name}
"""What replaces what, for a law that takes both."""
SEEN = 3
"""Cycles after which a motion that has begun shows in what the law reports."""


class GivenMotion(NamedTuple):
    """A motion that a law was told.

    Attributes:
        spec: The law.
        place: Of the arm in it.
        channel: By which it was told.
        activation: Number of the law's activation, which alone does it.
        numbers: Of the newest records in the slots of postures and trajectories, by channel.
        begins: Time of the controlled world at which it begins [s].
        told: The same at which it was told [s].
    """

    spec: InstanceSpec
    place: int
    channel: str
    activation: int
    numbers: dict[str, int]
    begins: float
    told: float


class GivenMotions:
    """Remember the newest motion of every arm of every law that makes motions.

    Args:
        connection: To the loop.
        time: Returns that of the controlled world [s].
        rate: Of the loop's cycles [Hz].

    Attributes:
        lock: Whoever has it is the only one who tells arms anything.

    Thread: any; :meth:`note` by whoever has the connection's lock.
    """

    def __init__(self, connection: Connection, time: Callable[[], float], rate: float) -> None:
        self._connection, self._time, self._seen = connection, time, SEEN / rate
        self._newest: dict[tuple[int, int], GivenMotion] = {}
        self.lock = connection.lock

    def note(self, spec: InstanceSpec, channel: str, place: int, record: Vector) -> None:
        """Remember a posture or a trajectory that was just handed over."""
        now, slots = self._time(), self._slots(spec, place)
        begins = float(record[START]) if channel == TRAJECTORY.name else 0.0
        self._newest[spec.index, place] = GivenMotion(
            spec, place, channel, self._connection.mailbox.beginnings[spec.index],
            {name: slot.written for name, slot in slots.items()}, max(begins, now), now,
        )  # fmt: skip

    def newest(self, spec: InstanceSpec, place: int) -> GivenMotion | None:
        """Return what an arm of a law was told last, None if nothing yet."""
        return self._newest.get((spec.index, place))

    def counts(self, motion: GivenMotion) -> bool:
        """Return whether nothing has taken its place: no other target, and no other activation."""
        spec = motion.spec
        if self._connection.mailbox.beginnings[spec.index] != motion.activation:
            return False
        slots = self._slots(spec, motion.place)
        return all(slots[name].written == number for name, number in motion.numbers.items())

    def is_to_begin(self, motion: GivenMotion) -> bool:
        """Return whether a motion counts, and what its law reports is not of it yet."""
        now = self._time()
        if now < motion.told or not self.counts(motion):  # the former where time was set back
            return False
        slot = self._slots(motion.spec, motion.place)[motion.channel]
        return slot.taken < motion.numbers[motion.channel] or now < motion.begins + self._seen

    def _slots(self, spec: InstanceSpec, place: int) -> dict[str, Slot]:
        slots = self._connection.mailbox.targets[spec.index]
        return {name: slots[name][place] for name in OTHER if name in slots}
