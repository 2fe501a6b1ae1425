# SPDX-License-Identifier: Apache-2.0
"""Processes with a word in their environment, as /proc tells."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

PROC = Path("/proc")
_SHARED = re.compile(r"/dev/shm/([^\s(]+)")
LOOK_PERIOD = 0.1  # for new processes and what they map [s]


class Processes:
    """Know the processes that a campaign has started, and theirs.

    Args:
        word: ``NAME=VALUE`` in their environment.

    Attributes:
        memory: Names in /dev/shm that any of them has ever mapped.
    """

    def __init__(self, word: str) -> None:
        self._word = word.encode()
        self._known: dict[tuple[int, str], bool] = {}
        self._stopped: dict[int, float] = {}
        self._next = 0.0
        self.memory: set[str] = set()

    def scan(self) -> None:
        """Look for new ones from time to time, and at every turn whether one is stopped."""
        for pid in [pid for (pid, _), ours in self._known.items() if ours]:
            self.look(pid)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_PERIOD
        for pid in self._all():
            with contextlib.suppress(OSError):
                self.memory.update(_SHARED.findall((PROC / str(pid) / "maps").read_text()))

    def look(self, pid: int) -> float:
        """Return since when a process is stopped by a signal (time), or 0."""
        if _stat(pid)[0] == "T":
            return self._stopped.setdefault(pid, time.time())
        self._stopped.pop(pid, None)
        return 0.0

    def running(self) -> list[dict[str, Any]]:
        """Return those that have not ended."""
        return [
            {"pid": pid, "what": _what(pid)} for pid in self._all() if _stat(pid)[0] not in "ZX?"
        ]

    def _all(self) -> list[int]:
        found, known = [], {}
        for folder in PROC.iterdir():
            if not folder.name.isdigit():
                continue
            pid = int(folder.name)
            key = (pid, _stat(pid)[1])
            ours = self._known.get(key)
            if not ours:  # a fork has its parent's environment until it executes something
                try:
                    ours = self._word in (folder / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
            known[key] = ours
            if ours:
                found.append(pid)
        self._known = known
        return found


def _stat(pid: int) -> tuple[str, str]:
    """Return the state of a process and when it began."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "?", ""
    return fields[0], fields[19]


def _what(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
