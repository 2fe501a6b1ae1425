# SPDX-License-Identifier: Apache-2.0
"""The back door of a simulated robot, without the package: clients have processes of their own."""

from __future__ import annotations

import json
import socket

ADMIN_PORT = 7331


def admin(address, command, **arguments):
    """Ask the back door of the simulation."""
    with socket.create_connection((address, ADMIN_PORT), timeout=5.0) as link:
        link.sendall((json.dumps({"command": command, **arguments}) + "\n").encode())
        answer = json.loads(link.makefile().readline())
    if not answer["ok"]:
        raise RuntimeError(answer["error"])
    return answer
