# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C does to a program before it owns anything, and after.

Importing takes a second, and an interrupted import ends in a trace of somebody else's code. So
this module imports next to nothing, and programs import it first: until they begin to start
things that have to be ended in order, a signal ends them at once, in one line. Nothing is
left behind then: no arm is connected, no process started, no file locked.
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
"""Ctrl-C, a supervisor, and a terminal that is closed."""
BEYOND_SIGNALS = 128
"""What shells add to the number of a signal to make an exit code of it: 130, 143, 129."""
program_name = ""
"""Name of the program whose signals end it; empty in a process of others."""
time_allowed = 0.0
"""Time that an orderly end may take, 0 for any [s]."""
deadline = 0.0
"""Time at which the end has to be over, CLOCK_MONOTONIC; 0 before a signal [s]."""


class Interrupted(KeyboardInterrupt):
    """A signal that asks for the end.

    Args:
        number: Of the signal.

    Attributes:
        code: The exit code that tells of it.
        name: Of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = BEYOND_SIGNALS + number
        self.name = signal.Signals(number).name


def take_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Have signals that ask for the end call a handler; of them what nohup ignores stays so.

    Thread: main.
    """
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def end_at_once(program: str) -> None:
    """Have signals end this process at once, in a line and with their code. Thread: main.

    From here on it has its three standard streams, too: see :func:`.open_closed_streams`.
    """
    global program_name
    open_closed_streams()
    program_name = program
    take_signals(_end)


def end_in_order(within: float = 0.0) -> None:
    """Have signals raise :class:`Interrupted`: from here on there is something to end.

    The handlers of a process that was not started as one of our programs are its own.
    Thread: main.

    Args:
        within: Which time that may take, see :func:`time_left`; the program says so as soon as a
            signal comes. 0: it says nothing, and everything takes its time [s].
    """
    global time_allowed
    if program_name:
        time_allowed = within
        take_signals(_raise)


def time_left(usual: float) -> float:
    """Return how long to wait for the end of something [s]: less than usual after a signal."""
    return min(usual, max(0.0, deadline - time.monotonic())) if deadline else usual


def _end(number: int, frame: FrameType | None) -> None:
    text = f"{program_name}: {signal.Signals(number).name} before anything was started\n"
    with contextlib.suppress(OSError):  # nobody reads it
        os.write(2, text.encode())
    with contextlib.suppress(OSError):  # what an import has started: glfw asks for its version
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            children = file.read().split()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    os._exit(BEYOND_SIGNALS + number)


def _raise(number: int, frame: FrameType | None) -> None:
    for other in SIGNALS:  # what ends now is not to be cut in two
        signal.signal(other, signal.SIG_IGN)
    global deadline
    if time_allowed:
        deadline = time.monotonic() + time_allowed
        text = (
            f"{program_name}: {signal.Signals(number).name}: ending, at most {time_allowed:g} s\n"
        )
        with contextlib.suppress(OSError):
            os.write(2, text.encode())
    raise Interrupted(number)
