# SPDX-License-Identifier: Apache-2.0
"""Block the receiving threads of Fast DDS in a process without shared-memory transport."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

RECEIVING = {"45", "47", "207", "212"}
"""System-call numbers of recvfrom and recvmsg, on x86-64 and Arm."""
PIDFD_GETFD = 438
SO_ATTACH_FILTER = 26
CHECK_INTERVAL = 0.02  # between two checks that a thread waits [s]


class _Filter(ctypes.Structure):
    """``struct sock_fprog`` of one instruction of eight bytes."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def deafen(pid: int, wait: Callable[[Callable[[], bool]], object]) -> int:
    """Block the receiving threads of a process's first participant permanently.

    Each thread blocks while it waits for a message. Elsewhere it may hold a lock that all
    participants of the process need.

    Args:
        pid: Id of a process whose threads block when they receive SIGUSR2.
        wait: Function that waits until a condition holds.

    Returns:
        Number of blocked threads.
    """
    folder = Path(f"/proc/{pid}/task")
    threads = {int(task.name): (task / "comm").read_text().strip() for task in folder.iterdir()}
    second = min(number for number, name in threads.items() if name == "dds.ev.1")
    receivers = [
        number
        for number, name in threads.items()
        if number < second and re.match(r"dds\.udp\.\d", name)
    ]
    for number in receivers:
        with suppress(PermissionError):  # unreadable state: assume that it waits
            _keep_waiting(pid, folder / str(number), wait)
        if ctypes.CDLL(None).tgkill(pid, number, signal.SIGUSR2):
            raise ProcessLookupError(f"thread {number} of process {pid} has ended")
    return len(receivers)


def _keep_waiting(pid: int, task: Path, wait: Callable[[Callable[[], bool]], object]) -> None:
    """Block all messages to the socket of a thread, and wait until the thread waits."""
    wait(lambda: _socket_of(task) is not None)
    if (descriptor := _socket_of(task)) is not None:
        _drop_all(pid, descriptor)
        wait(lambda: _waits(task))


def _socket_of(task: Path) -> int | None:
    """Return the socket that a thread receives from, or None if it does not receive."""
    number, *arguments = (task / "syscall").read_text(encoding="ascii").split()
    return int(arguments[0], 16) if number in RECEIVING else None


def _waits(task: Path) -> bool:
    """Return True if a thread waits for a message in both of two checks."""
    if _socket_of(task) is None:
        return False
    time.sleep(CHECK_INTERVAL)
    state = (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return _socket_of(task) is not None and state == "S"


def _drop_all(pid: int, descriptor: int) -> None:
    """Attach a filter that drops all messages to a socket of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        copy = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), f"pidfd_getfd of process {pid}")
    with socket.socket(fileno=copy) as shared_socket:
        drop_all = bytes([0x06, 0, 0, 0, 0, 0, 0, 0])  # BPF_RET | BPF_K, 0 bytes
        program = _Filter(1, drop_all)
        shared_socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
