# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error that nobody has to read."""

from __future__ import annotations

import contextlib
import os
import select
import stat
import sys
from collections.abc import Sequence

_LIMIT = select.PIPE_BUF


def open_closed_streams() -> None:
    """Open what of standard input, output and error was closed at the start, on nothing.

    The next files and sockets would get their numbers, and whatever a library says would go into
    them; rclpy's executor refuses to begin without a standard error. Thread: main, before
    anything is opened.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def never_wait_for_output(numbers: Sequence[int] = (1, 2)) -> None:
    """Let text that nobody takes be lost instead of keeping this process waiting.

    A pager, a terminal after Ctrl-S or a pipe whose reader is stuck takes some 64 kB; then every
    writer would wait, with the interpreter's lock. The descriptors are opened anew, because a
    flag of the old ones would be that of every other process with the same terminal too. Files
    stay as they are; so do sockets, which cannot be opened again.

    Args:
        numbers: Of the descriptors.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for number in numbers:
        with contextlib.suppress(OSError):  # closed, without a reader, or somebody else's
            mode = os.fstat(number).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                fd = os.open(f"/proc/self/fd/{number}", flags)
                os.dup2(fd, number)
                os.close(fd)


def say(text: str) -> None:
    """Write a line to standard error if that takes it at once."""
    with contextlib.suppress(OSError, ValueError):  # the owner's terminal may be gone as well
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"{text}\n".encode()[:_LIMIT])
