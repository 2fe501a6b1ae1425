# SPDX-License-Identifier: Apache-2.0
"""Administration port of a simulated robot for client processes, without the package."""

from __future__ import annotations

import json
import socket

ADMIN_PORT = 7331


def admin(address, command, **arguments):
    """Send a command to the administration port; return the answer."""
    with socket.create_connection((address, ADMIN_PORT), timeout=5.0) as link:
        link.sendall((json.dumps({"command": command, **arguments}) + "\n").encode())
        answer = json.loads(link.makefile().readline())
    if not answer["ok"]:
        raise RuntimeError(answer["error"])
    return answer
