# SPDX-License-Identifier: Apache-2.0
"""TCP and UDP connections of a robot, with injected network faults."""

from __future__ import annotations

import errno
import random
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable

from multipanda_py.exceptions import BackendError
from multipanda_py.simulation.fci.wire import COMMAND_SIZE

MAX_MESSAGE_SIZE = 1 << 16  # Maximum size of a message [bytes]; the largest valid one has 428.
_SEND_TIMEOUT = 0.2  # Timeout of sending a message [s].


def listen(address: str, port: int) -> socket.socket:
    """Open a TCP socket that listens on a local IP address.

    Raises:
        BackendError: If the address is in use or does not belong to this machine.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((address, port))
    except OSError as error:
        listener.close()
        reasons = {
            errno.EADDRINUSE: "is in use; another simulated robot may be running there",
            errno.EADDRNOTAVAIL: "is not an address of this machine; use 127.0.0.1, 127.0.0.2 ...",
        }
        reason = reasons.get(error.errno or 0, f"cannot be opened: {error}")
        raise BackendError(f"{address} port {port} {reason}") from error
    listener.listen(64)
    listener.setblocking(False)
    return listener


class TcpPort:
    """TCP server for a single client; further clients are disconnected at once.

    Attributes:
        peer: Address of the client; None without a client.
        refused: Number of disconnected further clients.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        header: struct.Struct,
        on_message: Callable[[int, int, bytes], None],
        on_gone: Callable[[], None],
    ) -> None:
        """Accept clients of a listening socket.

        Args:
            selector: Selector that calls the handlers of readable sockets.
            listener: Listening socket.
            header: Format of message headers: command, counter, size.
            on_message: Handler of messages, with command, counter and body.
            on_gone: Handler of disconnection.
        """
        self._selector, self._header = selector, header
        self._on_message, self._on_gone = on_message, on_gone
        self._listener = listener
        self._client: socket.socket | None = None
        self._received = bytearray()
        self.peer: str | None = None
        self.refused = 0
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def send(self, command: int, counter: int, body: bytes) -> None:
        """Send a message to the client, if one is connected.

        Args:
            command: Number of the message type.
            counter: Number of the request that the message answers.
            body: Content of the message.
        """
        if self._client is None:
            return
        message = self._header.pack(command, counter, self._header.size + len(body)) + body
        try:
            self._client.sendall(message)
        except OSError:
            self.hang_up()

    def hang_up(self) -> None:
        """Close the connection to the client."""
        if self._client is not None:
            self._selector.unregister(self._client)
            self._client.close()
            self._client, self.peer = None, None
            self._on_gone()

    def close(self) -> None:
        """Close the connection and the listening socket."""
        self.hang_up()
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            client, address = self._listener.accept()
        except OSError:
            return
        if self._client is not None:
            self.refused += 1
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(_SEND_TIMEOUT)
        self._client, self.peer = client, address[0]
        self._received.clear()
        self._selector.register(client, selectors.EVENT_READ, self._read)

    def _read(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            data = client.recv(MAX_MESSAGE_SIZE)
        except TimeoutError:
            return
        except OSError:
            data = b""
        if not data:
            self.hang_up()
            return
        received, header = self._received, self._header
        received += data
        while len(received) >= header.size and self._client is client:
            command, counter, size = header.unpack_from(received)
            if not header.size <= size <= MAX_MESSAGE_SIZE:
                self.hang_up()
                return
            if len(received) < size:
                return
            body = bytes(received[header.size : size])
            del received[:size]
            self._on_message(command, counter, body)


# Socket option of Linux that adds the kernel's arrival time to a datagram. Python does not name
# it.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
_ANCILLARY_SIZE = socket.CMSG_SPACE(_TIMESPEC.size)
Datagram = tuple[int, bytes]
"""Time of arrival, as of ``time.perf_counter_ns``, and content."""


class UdpLink:
    """UDP socket that sends states and receives commands, and can lose or delay datagrams.

    Attributes:
        socket: Socket of both directions.
        peer: Address and port of the client; None without a client.
        dead: True to lose all datagrams, in both directions.
        lose_states: Number of next states to lose.
        lose_commands: Number of next commands to lose.
        probability: Probability of losing each datagram, 0 to 1.
        delay: Delay of every datagram [ns].
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
        """Remove all injected faults; the random sequence of losses restarts."""
        self.dead = False
        self.lose_states = self.lose_commands = 0
        self.probability = 0.0
        self.delay = 0
        self._rng = random.Random(0)

    def send(self, state: bytearray, now: int) -> bool:
        """Send the datagram of a state; return False without a client or if a fault loses it.

        Args:
            state: Datagram.
            now: Current time, to which an injected delay is added [ns].
        """
        if self.peer is None or self.dead:
            return False
        if self.lose_states > 0:
            self.lose_states -= 1
            return False
        if self._loses_datagram():
            return False
        if self.delay:
            self._states.append((now + self.delay, bytes(state)))
        else:
            self._transmit(state)
        return True

    def flush(self, now: int) -> None:
        """Send delayed states that are due at the time ``now`` [ns]."""
        while self._states and self._states[0][0] <= now:
            self._transmit(self._states.popleft()[1])

    def receive(self, now: int) -> tuple[list[Datagram], int]:
        """Return the received commands, and the number of commands lost by injected faults.

        Args:
            now: Current time; commands whose injected delay has not passed are returned later
                [ns].
        """
        lost = 0
        while True:
            try:
                datagram, ancillary, _, _ = self.socket.recvmsg(2 * COMMAND_SIZE, _ANCILLARY_SIZE)
            except OSError:  # The queue is empty, or the port of the client is closed.
                break
            if self.dead:
                continue
            if self.lose_commands > 0 or self._loses_datagram():
                self.lose_commands = max(0, self.lose_commands - 1)
                lost += 1
                continue
            self._commands.append((_arrival_time(ancillary) + self.delay, datagram))
        arrived = []
        while self._commands and self._commands[0][0] <= now:
            arrived.append(self._commands.popleft())
        return arrived, lost

    def next_delivery(self) -> int | None:
        """Return when the next delayed datagram is due [ns]; None if no datagram is delayed."""
        due_times = [queue[0][0] for queue in (self._states, self._commands) if queue]
        return min(due_times) if due_times else None

    def disconnect(self) -> None:
        """Remove the client, and discard delayed datagrams."""
        self.peer = None
        self._states.clear()
        self._commands.clear()

    def close(self) -> None:
        self.socket.close()

    def _loses_datagram(self) -> bool:
        return self.probability > 0.0 and self._rng.random() < self.probability

    def _transmit(self, state: bytes | bytearray) -> None:
        if self.peer is not None:
            try:
                self.socket.sendto(state, self.peer)
            # A client that disconnects closes its UDP socket first. The loss of the state is no
            # error.
            except OSError:
                return


def _arrival_time(ancillary: list[tuple[int, int, bytes]]) -> int:
    """Return when the kernel received a datagram, on the clock ``time.perf_counter_ns`` [ns]."""
    seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
    age = time.time_ns() - (seconds * 1_000_000_000 + nanoseconds)
    return time.perf_counter_ns() - int(max(0, age))
