# SPDX-License-Identifier: Apache-2.0
"""Numbers that one process on this machine uses: ROS domains and loopback networks.

The name of an abstract socket claims a number. The kernel frees it when the process ends.
"""

from __future__ import annotations

import os
import socket

FIRST_DOMAIN, DOMAINS = 1, 100
"""Ports of later domains are among those that the kernel gives to outgoing connections."""
_claims: list[socket.socket] = []


def claim(kind: str, first: int, numbers: int) -> int:
    """Return a number that no other process has claimed.

    The search starts at a place by this process's id: what an ended process has left on the
    network is forgotten before its number is used again.

    Args:
        kind: Name of what is numbered.
        first: Smallest number.
        numbers: Count of numbers.

    Raises:
        LookupError: All numbers are in use.
    """
    for index in range(numbers):
        number = first + (os.getpid() + index) % numbers
        mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            mark.bind(f"\0multipanda-test-{kind}-{number}")
        except OSError:
            mark.close()
            continue
        _claims.append(mark)
        return number
    raise LookupError(f"{kind}: all of {first} to {first + numbers - 1} are in use")


def claim_domain() -> int:
    """Return a ROS domain without nodes of others."""
    return claim("domain", FIRST_DOMAIN, DOMAINS)
