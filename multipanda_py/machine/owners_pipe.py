# SPDX-License-Identifier: Apache-2.0
"""Standard input of a process that somebody else owns: what it is told, and when it is to end."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn


def read_line() -> bytes:
    """Read one line of standard input without buffering what follows it."""
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:
        return unbuffered.readline()


def read_data() -> Any:
    """Return the data that the owner sends as one line of JSON.

    Raises:
        SystemExit: If the owner has ended before it sent the line.
    """
    line = read_line()
    if not line.endswith(b"\n"):
        raise SystemExit(1)
    return json.loads(line)


def lines() -> Iterator[bytes]:
    """Yield the lines of standard input as they arrive, without ``sys.stdin``.

    A thread that waits for ``sys.stdin`` holds its lock, and Python ends with a fatal error if the
    lock is held then.
    """
    heard = b""
    while data := os.read(0, 65536):
        *whole, heard = (heard + data).split(b"\n")
        yield from whole
    if heard:
        yield heard


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
