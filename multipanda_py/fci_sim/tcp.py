# SPDX-License-Identifier: Apache-2.0
"""A TCP port that serves one client, whose messages start with a header."""

from __future__ import annotations

import errno
import selectors
import socket
import struct
from collections.abc import Callable

from multipanda_py.exceptions import BackendError

LARGEST_MESSAGE = 1 << 16  # requests are 428 bytes at most
_SEND_TIMEOUT = 0.2  # [s]


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket.

    Raises:
        BackendError: If the address is taken or not one of this machine.
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
    """Listen on a port; a second client is turned away at once.

    Attributes:
        peer: Address of the client, or None.
        refused: How many clients were turned away.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        header: struct.Struct,
        on_message: Callable[[int, int, bytes], None],
        on_gone: Callable[[], None],
    ) -> None:
        """Serve a listening socket.

        Args:
            selector: Gets the sockets, with what to call when they are readable.
            listener: A listening socket.
            header: Of messages: command, counter, size.
            on_message: Called with command, counter and body.
            on_gone: Called when the client has gone.
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
        """Send a message to the client, if there is one."""
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
        """Close everything."""
        self.hang_up()
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        try:
            client, where = self._listener.accept()
        except OSError:
            return
        if self._client is not None:
            self.refused += 1
            client.close()
            return
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.settimeout(_SEND_TIMEOUT)
        self._client, self.peer = client, where[0]
        self._received.clear()
        self._selector.register(client, selectors.EVENT_READ, self._read)

    def _read(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            data = client.recv(LARGEST_MESSAGE)
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
            if not header.size <= size <= LARGEST_MESSAGE:
                self.hang_up()
                return
            if len(received) < size:
                return
            body = bytes(received[header.size : size])
            del received[:size]
            self._on_message(command, counter, body)
