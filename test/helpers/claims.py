# SPDX-License-Identifier: Apache-2.0
"""Numbers that are unique per process on this machine: ROS domains and loopback networks.

The name of an abstract socket claims a number. The kernel frees it when the process ends.
"""

from __future__ import annotations

import os
import socket

FIRST_DOMAIN, DOMAINS = 1, 100
"""Range of ROS domains; ports of higher domains overlap those of outgoing connections."""
_claims: list[socket.socket] = []


def claim(kind: str, first: int, numbers: int) -> int:
    """Return a number that no other process has claimed.

    The search starts at an index by the process id. Remains of an ended process on the network
    expire before its number is used again.

    Args:
        kind: Name of the numbered resource.
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
    """Return a ROS domain that no other test process uses."""
    return claim("domain", FIRST_DOMAIN, DOMAINS)
