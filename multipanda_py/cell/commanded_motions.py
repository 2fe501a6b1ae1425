# SPDX-License-Identifier: Apache-2.0
"""Newest motion commanded to each arm, and its validity and start."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from multipanda_py.cell.connection import Connection
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.controllets.targets.joint import JOINT, TRAJECTORY
from multipanda_py.realtime.scheduled_targets import START_INDEX
from multipanda_py.realtime.shared_memory import SeqlockBuffer
from multipanda_py.state import Vector

REPLACED_BY = {JOINT.name: TRAJECTORY.name, TRAJECTORY.name: JOINT.name}
"""Other joint channel, by channel. If a controllet accepts both, a new target on the one channel
replaces the target on the other."""
REPORT_CYCLES = 3
"""Maximum number of cycles from the start of a motion until the controllet reports it."""


class CommandedMotion(NamedTuple):
    """Motion that was commanded to one arm of a controllet.

    Attributes:
        spec: Controllet that executes the motion.
        arm_index: Index of the arm in the controllet.
        channel: Channel of the command, ``joint`` or ``trajectory``.
        activation: Number of activations of the controllet at the command. A later activation ends
            the motion.
        numbers: Sequence number of the newest target at the command, by channel. A later target
            replaces the motion.
        starts_at: Start of the motion in cell time (:attr:`.Cell.time`) [s].
        command_time: Cell time of the command [s].
    """

    spec: InstanceSpec
    arm_index: int
    channel: str
    activation: int
    numbers: dict[str, int]
    starts_at: float
    command_time: float


class CommandedMotions:
    """Store of the newest joint motion that was commanded to each arm of each controllet.

    Args:
        connection: Connection to the control loop.
        time: Function that returns the cell time (:attr:`.Cell.time`) [s].
        rate: Rate of the control loop [Hz].

    Attributes:
        lock: Lock to hold while the caller commands arms and calls :meth:`store`.

    Thread: any.
    """

    def __init__(self, connection: Connection, time: Callable[[], float], rate: float) -> None:
        self._connection, self._time, self._report_time = connection, time, REPORT_CYCLES / rate
        self._newest: dict[tuple[int, int], CommandedMotion] = {}
        self.lock = connection.lock

    def store(self, spec: InstanceSpec, channel: str, arm_index: int, record: Vector) -> None:
        """Store a joint target or a trajectory that was just sent, as an array of numbers."""
        now, slots = self._time(), self._slots(spec, arm_index)
        begins = float(record[START_INDEX]) if channel == TRAJECTORY.name else 0.0
        self._newest[spec.index, arm_index] = CommandedMotion(
            spec, arm_index, channel, self._connection.mailbox.activation_counts[spec.index],
            {name: slot.written for name, slot in slots.items()}, max(begins, now), now,
        )  # fmt: skip

    def newest(self, spec: InstanceSpec, index: int) -> CommandedMotion | None:
        """Return the newest motion commanded to an arm of a controllet; None without a motion."""
        return self._newest.get((spec.index, index))

    def is_valid(self, motion: CommandedMotion) -> bool:
        """Return True if neither a newer target nor a new activation has ended the motion."""
        spec = motion.spec
        if self._connection.mailbox.activation_counts[spec.index] != motion.activation:
            return False
        slots = self._slots(spec, motion.arm_index)
        return all(slots[name].written == number for name, number in motion.numbers.items())

    def is_pending(self, motion: CommandedMotion) -> bool:
        """Return True if the motion is valid and starts later."""
        now = self._time()
        # A reset of the simulation sets the time back and discards the motion.
        if now < motion.command_time or not self.is_valid(motion):
            return False
        slot = self._slots(motion.spec, motion.arm_index)[motion.channel]
        return (
            slot.taken < motion.numbers[motion.channel]
            or now < motion.starts_at + self._report_time
        )

    def _slots(self, spec: InstanceSpec, index: int) -> dict[str, SeqlockBuffer]:
        slots = self._connection.mailbox.targets[spec.index]
        return {name: slots[name][index] for name in REPLACED_BY if name in slots}
