# SPDX-License-Identifier: Apache-2.0
"""Threads that receive what others send to a process over Fast DDS, without shared memory."""

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
"""Numbers of recvfrom and recvmsg, on x86-64 and Arm."""
PIDFD_GETFD = 438
SO_ATTACH_FILTER = 26
STAYS = 0.02  # for which a thread is seen to wait, to be sure [s]


class _Filter(ctypes.Structure):
    """``struct sock_fprog`` of one instruction of eight bytes."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


def deafen(pid: int, wait: Callable[[Callable[[], bool]], object]) -> int:
    """Let the receiving threads of a process's first participant stand for good.

    Each stands where it waits for a message that never comes: elsewhere it may hold a lock that
    every participant of the process needs.

    Args:
        pid: Process id; SIGUSR2 lets a thread of that process stand.
        wait: Function that waits until a condition holds.

    Returns:
        Number of the threads.
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
        with suppress(PermissionError):  # the kernel does not say: it is taken for waiting
            _keep_waiting(pid, folder / str(number), wait)
        if ctypes.CDLL(None).tgkill(pid, number, signal.SIGUSR2):
            raise ProcessLookupError(f"thread {number} of process {pid} has ended")
    return len(receivers)


def _keep_waiting(pid: int, task: Path, wait: Callable[[Callable[[], bool]], object]) -> None:
    """Let a thread wait for a message that never comes."""
    wait(lambda: _socket_of(task) is not None)
    if (descriptor := _socket_of(task)) is not None:
        _drop_all(pid, descriptor)
        wait(lambda: _waits(task))


def _socket_of(task: Path) -> int | None:
    """Return the descriptor that a thread receives from, or None if it does not receive."""
    number, *arguments = (task / "syscall").read_text(encoding="ascii").split()
    return int(arguments[0], 16) if number in RECEIVING else None


def _waits(task: Path) -> bool:
    """Return whether a thread whose socket gets nothing any more waits for a message."""
    if _socket_of(task) is None:
        return False
    time.sleep(STAYS)
    state = (task / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return _socket_of(task) is not None and state == "S"


def _drop_all(pid: int, descriptor: int) -> None:
    """Let a socket of another process drop what comes; a thread then never leaves its wait."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = os.pidfd_open(pid)
    try:
        copy = libc.syscall(PIDFD_GETFD, process, descriptor, 0)
    finally:
        os.close(process)
    if copy < 0:
        raise OSError(ctypes.get_errno(), f"pidfd_getfd of process {pid}")
    with socket.socket(fileno=copy) as end:
        accept_nothing = bytes([0x06, 0, 0, 0, 0, 0, 0, 0])  # BPF_RET | BPF_K, 0 bytes
        program = _Filter(1, accept_nothing)
        end.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(program))
