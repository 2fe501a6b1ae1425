# SPDX-License-Identifier: Apache-2.0
"""Standard input of a process that somebody else owns: what it is told, and when it is to end."""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn


def read_line() -> bytes:
    """Read one line of standard input without buffering what follows it."""
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:
        return unbuffered.readline()


def end_of_input() -> threading.Event:
    """Return what will be set when standard input ends: the owner has closed it, or is gone.

    A thread of its own reads from now on, and what comes is dropped.
    """
    ended = threading.Event()

    def wait() -> None:
        while os.read(0, 4096):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def leave(code: int) -> NoReturn:
    """End this process though threads of others, as windows and OpenGL have them, go on."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
