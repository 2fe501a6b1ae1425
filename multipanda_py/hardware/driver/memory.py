# SPDX-License-Identifier: Apache-2.0
"""What the loop knows of a driver, and what changes it."""

from __future__ import annotations

import mmap
import os
import struct
from enum import Enum, IntEnum, auto
from typing import Protocol


class DriverWord(IntEnum):
    """Single words. The loop writes the first eight, the driver the others. Times are in ns."""

    LOOP_HEARTBEAT = 0
    SHUTDOWN = 1
    ENABLED = 2
    """What may be executed, :data:`TORQUES`, :data:`POSITIONS` or :data:`VELOCITIES`, or 0."""
    RECOVER = 3
    """Counts the requests to recover."""
    SHARES_CORE = 4
    """Whether the driver shares its cores with real-time loops; it then sleeps while it waits."""
    DRIVER_HEARTBEAT = 8
    BUSY_UNTIL = 9
    """Until then what it calls may keep the driver from beating."""
    READING = 10
    """Whether the driver waits for the robot, not the robot for the driver."""
    MESSAGES = 11
    """Counts messages on the driver's standard output: faults, answers to settings."""
    ANSWERED = 12
    """Counts torques of the loop that were sent to the robot."""
    LATE = 13
    """Counts cycles in which the loop had not answered within the budget."""
    CURRENT_ERRORS = 14
    """Current errors of the robot, one bit each; written before the state with a changed mode."""
    LAST_ERRORS = 15
    """Errors that ended the previous motion, in the same bits."""


_WORDS = 16
_STATE_AT = 8 * _WORDS
_SIZE = 4096
TORQUES, POSITIONS, VELOCITIES = 1, 2, 3
"""What a motion executes. For velocities, too, the loop says to which positions they lead."""
HEAD = 4
"""Numbers of a state before those of the joints."""


class Record:
    """One record: a counter, then numbers.

    Attributes:
        numbers: Live view of the numbers; whoever reads them checks :meth:`stamp` around it.
    """

    def __init__(self, memory: memoryview, at: int, form: struct.Struct) -> None:
        self._counter = memory[at : at + 8].cast("q")
        self._bytes = memory[at + 8 : at + 8 + form.size]
        self._form = form
        self.numbers = self._bytes.cast("d")

    def write(self, *numbers: float) -> None:
        """Publish numbers. Thread: the one writer."""
        counter = self._counter
        counter[0] += 1
        self._form.pack_into(self._bytes, 0, *numbers)
        counter[0] += 1

    def stamp(self) -> int:
        """Return a number that grows with every record and is odd during a write."""
        return self._counter[0]

    def read(self) -> tuple[float, ...] | None:
        """Return the numbers, or None if they are being written. Thread: reader."""
        before = self._counter[0]
        if before & 1:
            return None
        numbers = self._form.unpack_from(self._bytes)
        return numbers if self._counter[0] == before else None

    def repair(self) -> None:
        """Make the counter even again, which a writer that was killed may have left odd."""
        self._counter[0] += self._counter[0] & 1


class DriverMemory:
    """The memory of one arm with n joints.

    A state is its number, robot time [s], what is executed (0 for nothing), robot mode, and q, dq,
    tau_J and what the arm does to its environment, (n,) each. A command is the number of the state
    that is answered and torques or positions, (n,): in records of their own, so that one cannot be
    taken for the other.

    Args:
        n_joints: n.
        fd: File descriptor of a memory that the loop made, or None to make one.

    Attributes:
        fd: File descriptor; closing it is its owner's affair.
        words: Indexed by :class:`DriverWord`.
        state: Written by the driver.
        torque: Written by the loop.
        position: Written by the loop.
    """

    def __init__(self, n_joints: int, fd: int | None = None) -> None:
        self.fd = os.memfd_create("multipanda_driver", os.MFD_CLOEXEC) if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, _SIZE)
        memory = memoryview(mmap.mmap(self.fd, _SIZE))
        self.words = memory[: 8 * _WORDS].cast("q")
        state = struct.Struct(f"{HEAD + 4 * n_joints}d")
        self.state = Record(memory, _STATE_AT, state)
        torque_at = _STATE_AT + 8 + state.size
        command = struct.Struct(f"{1 + n_joints}d")
        self.torque = Record(memory, torque_at, command)
        self.position = Record(memory, torque_at + 8 + command.size, command)


class Refused(Exception):
    """Report that an arm cannot be used, and what to do.

    Attributes:
        final: Whether trying again is of no use: what has to change is on this computer.
    """

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class AnyDriverSettings(Protocol):
    """One driver's settings.

    Attributes:
        peer: What the driver speaks with, in words: ``robot 172.16.0.2``.
        no_answer: What it means if it has nothing to say of it, in words.
        answer_budget: How long the driver waits for the loop's torque [s].
    """

    @property
    def peer(self) -> str: ...
    @property
    def no_answer(self) -> str: ...
    @property
    def answer_budget(self) -> float: ...

    def to_json(self) -> str:
        """Return one line of JSON."""
        ...


class DriverState(Enum):
    """Where a driver stands. Each fault is reported when its state is entered, and once."""

    ABSENT = auto()
    """None was started."""
    CONNECTING = auto()
    """It has been started, and has not said yet whether it has its robot."""
    WORKING = auto()
    """It has its robot, and beats."""
    SILENT = auto()
    """It does not beat; it may do so again."""
    FAULTED = auto()
    """It has ended, or it or its robot has a fault; nothing goes on before a recovery."""


class DriverEvent(Enum):
    """What may happen to a driver."""

    START = auto()
    CONNECT = auto()
    FAIL = auto()
    """It cannot have its robot, has ended, or has said that there is a fault."""
    FALL_SILENT = auto()
    BEAT = auto()
    RECOVER = auto()


_TRANSITIONS = {
    (DriverState.CONNECTING, DriverEvent.CONNECT): DriverState.WORKING,
    (DriverState.WORKING, DriverEvent.FALL_SILENT): DriverState.SILENT,
    (DriverState.SILENT, DriverEvent.BEAT): DriverState.WORKING,
    (DriverState.FAULTED, DriverEvent.RECOVER): DriverState.WORKING,
}


def next_state(state: DriverState, event: DriverEvent) -> DriverState:
    """Return where a driver stands after an event.

    A start and a failure count in every state; what is not in the table changes nothing: a
    faulted driver that falls silent has its fault already.
    """
    if event is DriverEvent.START:
        return DriverState.CONNECTING
    if event is DriverEvent.FAIL:
        return DriverState.FAULTED
    return _TRANSITIONS.get((state, event), state)
