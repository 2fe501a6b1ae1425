# SPDX-License-Identifier: Apache-2.0
"""Record of the newest motion commanded to each arm, and whether it is valid and has started."""

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
"""Channel that replaces each channel, for a controllet that accepts both."""
SEEN = 3
"""Number of cycles from the start of a motion until the controllet reports it."""


class GivenMotion(NamedTuple):
    """Motion that was commanded to one arm of a controllet.

    Attributes:
        spec: Controllet that executes the motion.
        place: Index of the arm in the controllet.
        channel: Channel of the command.
        activation: Number of the activation of the controllet. Only this activation executes it.
        numbers: Sequence numbers of the newest joint and trajectory records, by channel.
        begins: Start of the motion in cell time (:attr:`.Cell.time`) [s].
        told: Cell time of the command [s].
    """

    spec: InstanceSpec
    place: int
    channel: str
    activation: int
    numbers: dict[str, int]
    begins: float
    told: float


class GivenMotions:
    """Store the newest motion of every arm of every controllet that executes joint motions.

    Args:
        connection: Connection to the control loop.
        time: Function that returns the cell time (:attr:`.Cell.time`) [s].
        rate: Rate of the control loop [Hz].

    Attributes:
        lock: Lock to hold while commanding arms.

    Thread: any. Callers of :meth:`note` hold the lock of the connection.
    """

    def __init__(self, connection: Connection, time: Callable[[], float], rate: float) -> None:
        self._connection, self._time, self._seen = connection, time, SEEN / rate
        self._newest: dict[tuple[int, int], GivenMotion] = {}
        self.lock = connection.lock

    def note(self, spec: InstanceSpec, channel: str, place: int, record: Vector) -> None:
        """Store a joint target or a trajectory that was just sent.

        Args:
            spec: Controllet instance that receives it.
            channel: Channel ``joint`` or ``trajectory``.
            place: Index of the arm in the controllet.
            record: Record of the target.
        """
        now, slots = self._time(), self._slots(spec, place)
        begins = float(record[START]) if channel == TRAJECTORY.name else 0.0
        self._newest[spec.index, place] = GivenMotion(
            spec, place, channel, self._connection.mailbox.beginnings[spec.index],
            {name: slot.written for name, slot in slots.items()}, max(begins, now), now,
        )  # fmt: skip

    def newest(self, spec: InstanceSpec, place: int) -> GivenMotion | None:
        """Return the newest command to an arm of a controllet, or None without any."""
        return self._newest.get((spec.index, place))

    def counts(self, motion: GivenMotion) -> bool:
        """Return True if no newer target and no newer activation has replaced the motion."""
        spec = motion.spec
        if self._connection.mailbox.beginnings[spec.index] != motion.activation:
            return False
        slots = self._slots(spec, motion.place)
        return all(slots[name].written == number for name, number in motion.numbers.items())

    def is_to_begin(self, motion: GivenMotion) -> bool:
        """Return True if a motion is valid and its controllet does not report it yet."""
        now = self._time()
        # A reset sets the time back, which makes the motion invalid.
        if now < motion.told or not self.counts(motion):
            return False
        slot = self._slots(motion.spec, motion.place)[motion.channel]
        return slot.taken < motion.numbers[motion.channel] or now < motion.begins + self._seen

    def _slots(self, spec: InstanceSpec, place: int) -> dict[str, Slot]:
        slots = self._connection.mailbox.targets[spec.index]
        return {name: slots[name][place] for name in OTHER if name in slots}
