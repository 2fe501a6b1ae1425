# SPDX-License-Identifier: Apache-2.0
"""Threads that receive what others send to a process over Fast DDS, without shared memory."""

from __future__ import annotations

import ctypes
import re
import signal
from collections.abc import Callable
from pathlib import Path

RECEIVING = {"45", "47", "207", "212"}
"""Numbers of recvfrom and recvmsg, on x86-64 and Arm."""


def deafen(pid: int, wait: Callable[[Callable[[], bool]], object]) -> int:
    """Let the receiving threads of a process's first participant stand for good.

    Each stands where it waits for a message: elsewhere it may hold a lock that every participant
    of the process needs.

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
        wait(lambda: _is_receiving(folder / str(number)))  # noqa: B023
        if ctypes.CDLL(None).tgkill(pid, number, signal.SIGUSR2):
            raise ProcessLookupError(f"thread {number} of process {pid} has ended")
    return len(receivers)


def _is_receiving(task: Path) -> bool:
    try:
        return (task / "syscall").read_text(encoding="ascii").split()[0] in RECEIVING
    except PermissionError:  # where the kernel does not say, it is taken for waiting
        return True
