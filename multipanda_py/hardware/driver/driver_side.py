# SPDX-License-Identifier: Apache-2.0
"""Connection of a driver process to the loop, and its real-time priority."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from types import FrameType
from typing import Any

from multipanda_py.hardware.driver.memory import TORQUES, DriverMemory, DriverWord
from multipanda_py.realtime.system.child_process import DRIVER_NAME, name_process


def take_priority(priority: int, peer: str) -> list[str]:
    """Set the real-time priority of this process.

    Args:
        priority: Priority for SCHED_FIFO; 0 keeps the normal scheduler.
        peer: Name of the robot or topic for messages.

    Returns:
        Warnings about denied rights.
    """
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    if priority <= 0:
        return []
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return [
            f"no real-time priority for the driver of {peer} ({error.strerror}): it "
            "will lose commands when the machine is busy (allow it by 'rtprio 98' in "
            "/etc/security/limits.conf)"
        ]
    return []


_MAX_COMMAND_AGE = 2
"""Maximum age of a command that is used if none for the newest state arrives in time [states]."""

_READING, _HEARTBEAT, _ENABLED = (
    int(DriverWord.READING),
    int(DriverWord.DRIVER_HEARTBEAT),
    int(DriverWord.ENABLED),
)
_NO_FDS: tuple[int, ...] = ()
_monotonic_ns, _select = time.monotonic_ns, select.select
_signal, _clear = os.eventfd_write, os.eventfd_read
_yield = os.sched_yield
_LOOP_TIMEOUT = 20_000_000  # Maximum age of the loop's heartbeat at which a motion may start [ns].
_MAX_POLL_TIME = 250_000
"""Maximum time for which the driver polls for a command before it sleeps [ns]. Most commands
arrive in half of this time."""


class DriverSide:
    """Connection of a driver to the loop: publishes states and waits for commands.

    Only :meth:`first_line` and :meth:`wait` block.

    Args:
        memory: Memory that is shared with the loop.
        state_event: eventfd that wakes the loop.
        torque_event: eventfd with which the loop wakes this process.

    Attributes:
        words: Shared memory of loop and driver, indexed by :class:`.DriverWord`.
        terminated: True after a request to end this process.
    """

    def __init__(self, memory: DriverMemory, state_event: int, torque_event: int) -> None:
        self.words = memory.words
        self._state, self._answers = memory.state, memory.torque
        self._torques, self._positions = memory.torque, memory.position
        self._state_event, self._torque_event = state_event, torque_event
        memory.state.repair()
        self._inputs = [torque_event, 0]
        self._received = bytearray()
        self._number = self._used_number = 0
        self._owner = os.getppid()
        self._poll_time = 0
        self.terminated = False
        os.set_blocking(1, False)

    def first_line(self) -> str:
        """Wait for the settings, which are the first line of standard input, and return them.

        Raises:
            SystemExit: If the loop has ended before it has sent the line.
        """
        while b"\n" not in self._received and 0 in self._inputs:
            self._receive()
        lines = self._lines()
        if not lines:
            raise SystemExit(1)
        return lines[0]

    def lines(self) -> list[str]:
        """Return the settings received since the last call, as lines of standard input."""
        return self._lines() if self.has_lines() else []

    def has_lines(self) -> bool:
        """Return True if standard input has new data since the last call of :meth:`lines`."""
        if 0 in self._inputs and _select([0], _NO_FDS, _NO_FDS, 0.0)[0]:
            self._receive()
        return len(self._received) > 0

    def ended(self) -> bool:
        """Return True if the loop has ended, or has requested the end of this driver."""
        return (
            self.terminated
            or self.words[DriverWord.SHUTDOWN] != 0
            or 0 not in self._inputs
            or os.getppid() != self._owner
        )

    def report_reading(self) -> None:
        """Report to the loop that the driver waits for a state of the robot.

        A missing heartbeat is then a fault of robot or network.
        """
        self.words[DriverWord.READING] = 1

    def send_heartbeat(self) -> None:
        """Send a heartbeat; the driver no longer counts as waiting for the robot."""
        self.words[DriverWord.READING] = 0
        self.words[DriverWord.DRIVER_HEARTBEAT] = time.monotonic_ns()

    def report_busy(self, seconds: float) -> None:
        """Report to the loop for how long a blocking call prevents heartbeats.

        Args:
            seconds: Maximum duration of the call [s]; 0 when the call has ended.
        """
        self.send_heartbeat()
        self.words[DriverWord.BUSY_UNTIL] = (
            time.monotonic_ns() + int(seconds * 1e9) if seconds else 0
        )

    def publish(self, *state: float) -> int:
        """Publish a state and wake the loop; return the number of the state.

        Args:
            state: Values as in :class:`.DriverMemory`, without the number.
        """
        number = self._number = self._number + 1
        self._state.write(number, *state)
        _signal(self._state_event, 1)
        words = self.words
        words[_READING] = 0
        words[_HEARTBEAT] = _monotonic_ns()
        return number

    def may_execute(self) -> int:
        """Return the enabled kind of command, such as ``TORQUES``; 0 if no motion may start now.

        A motion may start if the loop has enabled commands and its last heartbeat is recent.
        """
        age = time.monotonic_ns() - self.words[DriverWord.LOOP_HEARTBEAT]
        return self.words[DriverWord.ENABLED] if age < _LOOP_TIMEOUT else 0

    def start_motion(self, kind: int = TORQUES) -> None:
        """Prepare a motion: discard older commands; from now on accept only those of ``kind``."""
        self._used_number = self._number
        self._answers = self._torques if kind == TORQUES else self._positions
        self._poll_time = 0
        # Polling would delay a loop on the same core, so the driver sleeps if it shares one.
        with contextlib.suppress(ProcessLookupError):
            shared = os.sched_getaffinity(self._owner) & os.sched_getaffinity(0)
            if not (shared or self.words[DriverWord.SHARES_CORE]):
                self._poll_time = _MAX_POLL_TIME

    def wait(self, number: int, until_ns: int) -> tuple[float, ...] | None:
        """Wait for the command with which the loop answers a state.

        If it does not arrive in time, return an unused command for one of the two previous states.

        Args:
            number: Number of the state.
            until_ns: End of the wait, CLOCK_MONOTONIC [ns].

        Returns:
            Torques, (n,) [Nm], or positions, (n,) [rad]. None if none of these commands has
            arrived, or if commands are disabled.
        """
        if self._poll_time:
            result = self._poll_for_command(number, until_ns)
            if result is not None:
                self._used_number = number
                return result[1:]
        result = None
        while (left := until_ns - _monotonic_ns()) > 0:
            ready = _select(self._inputs, _NO_FDS, _NO_FDS, left * 1e-9)[0]
            if self._torque_event in ready:
                _clear(self._torque_event)
                result = self._answers.read()
                if result is not None and result[0] == number:
                    break
            if 0 in ready:
                self._receive()
            if self.ended() or not self.words[_ENABLED]:
                return None
        else:
            if result is None:
                result = self._answers.read()
            if (
                result is None
                or not max(self._used_number, number - 1 - _MAX_COMMAND_AGE) < result[0] <= number
            ):
                return None
        self._used_number = int(result[0])
        return result[1:]

    def _poll_for_command(self, number: int, until_ns: int) -> tuple[float, ...] | None:
        """Return the number of a state and the command for it, or None after a timeout."""
        # Polling is faster than a wake-up from sleep.
        newest = self._answers.numbers
        until_ns = min(until_ns, _monotonic_ns() + self._poll_time)
        while _monotonic_ns() < until_ns:
            if newest[0] == number:
                result = self._answers.read()
                if result is not None and result[0] == number:
                    return result
            _yield()
        return None

    def send_message(self, **message: Any) -> None:
        """Write a message as one line of JSON to standard output, and wake the loop."""
        with contextlib.suppress(OSError):  # The pipe may be full, or the loop may have ended.
            os.write(1, (json.dumps(message) + "\n").encode())
        self.words[DriverWord.MESSAGES] += 1
        os.eventfd_write(self._state_event, 1)

    def _receive(self) -> None:
        data = os.read(0, 65536)
        self._received += data
        if not data:
            self._inputs.remove(0)

    def _lines(self) -> list[str]:
        *lines, rest = bytes(self._received).split(b"\n")
        self._received[:] = rest
        return [line.decode() for line in lines]


def connect_to_loop() -> DriverSide:
    """Connect a driver process to the loop that started it.

    The process gets normal priority, ignores SIGINT, and treats SIGTERM as a request to end.

    Thread: main.
    """
    # The process has inherited the loop's priority. ``take_priority`` sets its own one later.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    name_process(DRIVER_NAME)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The process of the cell handles Ctrl-C.
    fd, state_event, torque_event, n_joints = map(int, sys.argv[1:5])
    loop = DriverSide(DriverMemory(n_joints, fd), state_event, torque_event)

    def terminate(_signal: int, _frame: FrameType | None) -> None:
        loop.terminated = True

    signal.signal(signal.SIGTERM, terminate)
    return loop


def collect_for_good() -> None:
    """Collect garbage once, then disable the garbage collector, which would delay commands."""
    gc.collect()
    gc.freeze()
    gc.disable()
