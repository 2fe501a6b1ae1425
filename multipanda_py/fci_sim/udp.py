# SPDX-License-Identifier: Apache-2.0
"""The UDP side of a robot, with a network that can be made bad on purpose."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections import deque

from multipanda_py.fci_sim.wire import COMMAND_SIZE

_SO_TIMESTAMPNS = 35  # Linux: the kernel notes when a datagram arrives; Python has no name for it
_TIMESPEC = struct.Struct("qq")
_ANCILLARY = socket.CMSG_SPACE(_TIMESPEC.size)
Datagram = tuple[int, bytes]
"""When it arrived, ``time.perf_counter_ns``, and what it says."""


class UdpLink:
    """Send states and receive commands; the client answers to where states come from.

    Attributes:
        socket: Where both happen.
        peer: Address and port of the client, or None.
        dead: Whether nothing passes any more, either way.
        lose_states: How many of the next states are lost.
        lose_commands: How many of the next commands are lost.
        probability: Of losing any datagram.
        delay: Of every datagram [ns].
    """

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 0))
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.peer: tuple[str, int] | None = None
        self._states: deque[Datagram] = deque()
        self._commands: deque[Datagram] = deque()
        self.heal()

    def heal(self) -> None:
        """Make the network perfect again; its dice start anew, the same ones each time."""
        self.dead = False
        self.lose_states = self.lose_commands = 0
        self.probability = 0.0
        self.delay = 0
        self._dice = random.Random(0)

    def send(self, state: bytearray, now: int) -> bool:
        """Send a state; return whether it will arrive."""
        if self.peer is None or self.dead:
            return False
        if self.lose_states > 0:
            self.lose_states -= 1
            return False
        if self._unlucky():
            return False
        if self.delay:
            self._states.append((now + self.delay, bytes(state)))
        else:
            self._transmit(state)
        return True

    def flush(self, now: int) -> None:
        """Send delayed states that are due."""
        while self._states and self._states[0][0] <= now:
            self._transmit(self._states.popleft()[1])

    def receive(self, now: int) -> tuple[list[Datagram], int]:
        """Return the commands that have arrived, and how many were lost on purpose.

        A command's time is the kernel's, so that it does not depend on when this process
        comes round to look.
        """
        lost = 0
        while True:
            try:
                datagram, notes, _, _ = self.socket.recvmsg(2 * COMMAND_SIZE, _ANCILLARY)
            except OSError:  # nothing there, or a port that is closed
                break
            if self.dead:
                continue
            if self.lose_commands > 0 or self._unlucky():
                self.lose_commands = max(0, self.lose_commands - 1)
                lost += 1
                continue
            self._commands.append((_arrival(notes) + self.delay, datagram))
        arrived = []
        while self._commands and self._commands[0][0] <= now:
            arrived.append(self._commands.popleft())
        return arrived, lost

    def next_delivery(self) -> int | None:
        """Return when the next delayed datagram is due [ns], or None."""
        due = [queue[0][0] for queue in (self._states, self._commands) if queue]
        return min(due) if due else None

    def disconnect(self) -> None:
        """Forget the client and what is under way."""
        self.peer = None
        self._states.clear()
        self._commands.clear()

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def _unlucky(self) -> bool:
        return self.probability > 0.0 and self._dice.random() < self.probability

    def _transmit(self, state: bytes | bytearray) -> None:
        if self.peer is not None:
            try:
                self.socket.sendto(state, self.peer)
            except OSError:  # nobody listens: the client is about to go
                return


def _arrival(notes: list[tuple[int, int, bytes]]) -> int:
    """Return the kernel's time of arrival on this process's clock [ns]."""
    seconds, nanoseconds = _TIMESPEC.unpack(notes[0][2])
    age = time.time_ns() - (seconds * 1_000_000_000 + nanoseconds)
    return time.perf_counter_ns() - int(max(0, age))
