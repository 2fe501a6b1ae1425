# SPDX-License-Identifier: Apache-2.0
"""Shared memory of loop and driver, and the states of a driver."""

from __future__ import annotations

import mmap
import os
import struct
from enum import Enum, IntEnum, auto
from typing import Protocol


class DriverWord(IntEnum):
    """Indices of 64-bit integers in :attr:`DriverMemory.words`.

    The loop writes integers 0 to 7, the driver 8 to 15. Times are CLOCK_MONOTONIC [ns].
    """

    LOOP_HEARTBEAT = 0
    SHUTDOWN = 1
    ENABLED = 2
    """Kind of command to execute: :data:`TORQUES`, :data:`POSITIONS`, :data:`VELOCITIES` or 0."""
    RECOVER = 3
    """Number of recovery requests of the loop; an increase is a new request."""
    SHARES_CORE = 4
    """1 if the driver shares its cores with real-time loops; it then sleeps while it waits."""
    DRIVER_HEARTBEAT = 8
    BUSY_UNTIL = 9
    """End of the time in which a blocking call may prevent heartbeats of the driver."""
    READING = 10
    """1 while the driver waits for a state of the robot."""
    MESSAGES = 11
    """Number of messages on the driver's standard output: faults, responses to settings."""
    ANSWERED = 12
    """Number of torques of the loop that were sent to the robot."""
    LATE = 13
    """Number of cycles in which the loop had not responded within the budget."""
    CURRENT_ERRORS = 14
    """Current errors of the robot, one bit each; written before the state with a changed mode."""
    LAST_ERRORS = 15
    """Errors that ended the previous motion, in the same bits."""


_WORDS = 16  # Number of 64-bit integers at the beginning of the memory.
_STATE_AT = 8 * _WORDS
_SIZE = 4096  # Size of the shared memory, which is one page [bytes].
TORQUES, POSITIONS, VELOCITIES = 1, 2, 3
"""Kinds of command. For velocities, the loop sends the positions to which they lead."""
HEAD = 4
"""Number of values of a state before those of the joints."""


class Record:
    """Array of numbers in shared memory, with a sequence counter for consistent reads (seqlock).

    Args:
        memory: Shared memory.
        at: Position of the counter in the memory [bytes]; the numbers follow it.
        form: Binary format of all numbers, 8 bytes each.

    Attributes:
        numbers: Live view of the numbers. A copy is valid if :meth:`stamp` returns the same even
            value before and after the copy.
    """

    def __init__(self, memory: memoryview, at: int, form: struct.Struct) -> None:
        self._counter = memory[at : at + 8].cast("q")
        self._bytes = memory[at + 8 : at + 8 + form.size]
        self._form = form
        self.numbers = self._bytes.cast("d")

    def write(self, *numbers: float) -> None:
        """Write all numbers. Only one thread of one process may write a record."""
        counter = self._counter
        counter[0] += 1
        self._form.pack_into(self._bytes, 0, *numbers)
        counter[0] += 1

    def stamp(self) -> int:
        """Return the sequence counter, which every write increments by 2; odd during a write."""
        return self._counter[0]

    def read(self) -> tuple[float, ...] | None:
        """Return the numbers; None if a write is in progress. Thread: reader."""
        before = self._counter[0]
        if before & 1:
            return None
        numbers = self._form.unpack_from(self._bytes)
        return numbers if self._counter[0] == before else None

    def repair(self) -> None:
        """Make the counter even after a writer was killed during a write."""
        self._counter[0] += self._counter[0] & 1


class DriverMemory:
    """Shared memory of loop and driver for one arm with n joints.

    A state has these values in order: its number, robot time [s], kind of command that the robot
    executes (0 for none), and robot mode. Then q, dq, tau_J and the torques that the arm exerts on
    its environment follow, (n,) each.

    A command has the number of the state that it answers, and n torques or n positions. Torques
    and positions have separate places, so that they cannot be confused.

    Args:
        n_joints: Number of joints, n.
        fd: File descriptor of a memory that the loop created, or None to create one.

    Attributes:
        fd: File descriptor of the memory, which the loop closes.
        words: Flags, counters and times as 64-bit integers, indexed by :class:`DriverWord`.
        state: State, written by the driver.
        torque: Command of torques, written by the loop.
        position: Command of positions, written by the loop.
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


class DriverStartError(Exception):
    """Error at the start of a driver whose arm cannot be used; the message tells users what to do.

    Attributes:
        final: True if another attempt is useless until settings or this computer are changed.
    """

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class AnyDriverSettings(Protocol):
    """Interface of the settings of a driver.

    Attributes:
        peer: Name of the robot or topic for messages, such as ``robot 172.16.0.2``.
        no_answer: Message about a driver that does not respond, to which the timeout is appended.
        answer_budget: Maximum time for which the driver waits for the command of the loop [s].
    """

    @property
    def peer(self) -> str: ...
    @property
    def no_answer(self) -> str: ...
    @property
    def answer_budget(self) -> float: ...

    def to_json(self) -> str:
        """Return the settings as one line of JSON."""
        ...


class DriverState(Enum):
    """State of a driver. Each fault is reported once, when its state is entered."""

    ABSENT = auto()
    """No driver was started."""
    CONNECTING = auto()
    """The driver is started and has not reported yet whether it could connect to its robot."""
    WORKING = auto()
    """The driver is connected to its robot and sends heartbeats."""
    SILENT = auto()
    """The heartbeat is missing and may return."""
    FAULTED = auto()
    """The driver has ended, or driver or robot has a fault; nothing runs before a recovery."""


class DriverEvent(Enum):
    """Event that may change the :class:`DriverState` of a driver."""

    START = auto()
    CONNECT = auto()
    FAIL = auto()
    """The driver cannot use its robot, has ended, or has reported a fault."""
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
    """Return the state of a driver after an event.

    An event that does not apply to the state leaves it unchanged, such as ``FALL_SILENT`` in any
    state but ``WORKING``. ``START`` and ``FAIL`` apply to all states.
    """
    if event is DriverEvent.START:
        return DriverState.CONNECTING
    if event is DriverEvent.FAIL:
        return DriverState.FAULTED
    return _TRANSITIONS.get((state, event), state)
