# SPDX-License-Identifier: Apache-2.0
"""Handling of Ctrl-C and other signals, before and after a program has resources to release.

Programs import this small module first. Until they acquire resources, a signal ends them at once
with one line of text, even during long imports. Afterwards, a signal starts an orderly end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from types import FrameType

from multipanda_py.realtime.system.child_process import open_closed_streams

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, the signal of a supervisor, and a closed terminal."""
SIGNAL_EXIT_OFFSET = 128
"""Offset between the number of a signal and the exit code in a shell: 130, 143, 129."""
program_name = ""
"""Name of this program for messages; empty if the process belongs to another program."""
end_timeout = 0.0
"""Maximum time of an orderly end [s]; 0 means no limit."""
deadline = 0.0
"""Deadline of the orderly end, CLOCK_MONOTONIC [s]; 0 before a signal."""


class Interrupted(KeyboardInterrupt):
    """Signal that requests the end of the program.

    Attributes:
        code: Exit code for the signal.
        name: Name of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = SIGNAL_EXIT_OFFSET + number
        self.name = signal.Signals(number).name


def take_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Install a handler for :data:`SIGNALS`, except for SIGHUP in a program run by nohup.

    Thread: main.
    """
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def end_at_once(program: str) -> None:
    """Let signals end this process at once, with a line of text and the exit code of the signal.

    This also opens standard streams that are closed, see :func:`.open_closed_streams`.

    Thread: main.
    """
    global program_name
    open_closed_streams()
    program_name = program
    take_signals(_end)


def end_in_order(timeout: float = 0.0) -> None:
    """Let signals raise :class:`Interrupted`, so that the program can release its resources.

    This has no effect without an earlier call of :func:`end_at_once` in this process.

    Thread: main.

    Args:
        timeout: Maximum duration of the orderly end [s]; 0 means no limit.
    """
    global end_timeout
    if program_name:
        end_timeout = timeout
        take_signals(_raise)


def time_left(usual: float) -> float:
    """Return the maximum time to wait for a child process or another resource to end [s].

    Args:
        usual: Maximum time without a signal [s]. After a signal, the deadline of the orderly end
            can shorten it.
    """
    return min(usual, max(0.0, deadline - time.monotonic())) if deadline else usual


def _end(number: int, frame: FrameType | None) -> None:
    text = f"{program_name}: {signal.Signals(number).name} before anything was started\n"
    with contextlib.suppress(OSError):  # Standard error may have no reader.
        os.write(2, text.encode())
    # An interrupted import may have child processes: glfw starts one to query its version.
    with contextlib.suppress(OSError):
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = file.read().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    os._exit(SIGNAL_EXIT_OFFSET + number)


def _raise(number: int, frame: FrameType | None) -> None:
    for other in SIGNALS:  # A second signal must not interrupt the orderly end.
        signal.signal(other, signal.SIG_IGN)
    global deadline
    if end_timeout:
        deadline = time.monotonic() + end_timeout
        text = f"{program_name}: {signal.Signals(number).name}: ending within {end_timeout:g} s\n"
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
    raise Interrupted(number)
