# SPDX-License-Identifier: Apache-2.0
"""Both ends of the back door: JSON lines on port 7331 of every robot's address."""

from __future__ import annotations

import json
import selectors
import socket
from typing import TYPE_CHECKING, Any

from multipanda_py.exceptions import BackendError
from multipanda_py.fci_sim.tcp import listen

if TYPE_CHECKING:
    from multipanda_py.fci_sim.admin import Admin

ADMIN_PORT = 7331
LONGEST_REQUEST = 1 << 20
"""Of a line that has not ended; who sends more is hung up on [bytes]."""
Result = dict[str, Any]


class AdminPort:
    """Serve :class:`~multipanda_py.fci_sim.admin.Admin` to any number of clients."""

    def __init__(self, selector: selectors.BaseSelector, address: str, admin: Admin) -> None:
        self._selector, self._admin = selector, admin
        self._listener = listen(address, ADMIN_PORT)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        try:
            client, _ = self._listener.accept()
        except OSError:
            return
        client.settimeout(1.0)
        received = bytearray()
        self._selector.register(client, selectors.EVENT_READ, lambda: self._read(client, received))

    def _read(self, client: socket.socket, received: bytearray) -> None:
        try:
            data = client.recv(65536)
            received += data
            if len(received) > LONGEST_REQUEST:
                data = b""
                received.clear()
            while b"\n" in received:
                line, _, rest = bytes(received).partition(b"\n")
                received[:] = rest
                client.sendall(json.dumps(self._answer(line)).encode() + b"\n")
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(client)
            client.close()

    def _answer(self, line: bytes) -> Result:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            return {"ok": False, "error": f"not JSON: {error}"}
        if not isinstance(request, dict):
            return {"ok": False, "error": "a request is a JSON object"}
        return self._admin.execute(request)


class AdminClient:
    """Ask the admin port of a robot."""

    def __init__(self, address: str, timeout: float = 5.0) -> None:
        self._socket = socket.create_connection((address, ADMIN_PORT), timeout=timeout)
        self._answers = self._socket.makefile("r", encoding="utf-8")

    def request(self, command: str, **arguments: Any) -> Result:
        """Have a command executed and return the answer.

        Raises:
            BackendError: If it was refused or nobody answered.
        """
        try:
            line = json.dumps({"command": command, **arguments}) + "\n"
            self._socket.sendall(line.encode())
            text = self._answers.readline()
        except OSError as error:
            raise BackendError(f"no answer from the simulated robot: {error}") from error
        if not text:
            raise BackendError("the simulated robot has gone")
        answer: Result = json.loads(text)
        if not answer.pop("ok"):
            raise BackendError(f"{command}: {answer['error']}")
        return answer

    def close(self) -> None:
        """Hang up."""
        self._answers.close()
        self._socket.close()
