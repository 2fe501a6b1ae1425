# SPDX-License-Identifier: Apache-2.0
"""Age of the state that libfranka has read last, by the kernel's time stamp of its packet."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import struct
import time

_SIOCGSTAMPNS = 0x8907
_STAMP = struct.Struct("@qq")
_IMPLAUSIBLE = 1_000_000_000
"""Age from which on a step of the clock is assumed [ns]."""


class StateAge:
    """Age of the state that was read last.

    A process that had to wait for a core reads a state that has been in its socket for a while.
    The time of reading does not show that, the kernel's time stamp of the packet does.

    Args:
        fd: File descriptor of the socket that receives states; None if there is none.
    """

    def __init__(self, fd: int | None) -> None:
        self._fd, self._stamp = fd, bytearray(_STAMP.size)
        self()  # the kernel notes time stamps from the first request on

    def __call__(self) -> int:
        """Return the age [ns]; 0 if it is unknown."""
        if self._fd is None:
            return 0
        try:
            fcntl.ioctl(self._fd, _SIOCGSTAMPNS, self._stamp)
        except OSError:  # no packet has been read yet, or the socket is closed
            return 0
        seconds, nanoseconds = _STAMP.unpack(self._stamp)
        age = time.time_ns() - 1_000_000_000 * seconds - nanoseconds
        return age if 0 <= age < _IMPLAUSIBLE else 0


def state_socket() -> int | None:
    """Return the only UDP socket of this process, which is libfranka's; None if it is unclear."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            probe = socket.socket(fileno=int(name))
            kind, family = probe.type, probe.family
            probe.detach()
            if kind == socket.SOCK_DGRAM and family in (socket.AF_INET, socket.AF_INET6):
                found.append(int(name))
    return found[0] if len(found) == 1 else None
