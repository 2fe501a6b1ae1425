# SPDX-License-Identifier: Apache-2.0
"""Search of /proc for processes with a marker in their environment."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from typing import Any

PROC = Path("/proc")
_SHARED = re.compile(r"/dev/shm/([^\s(]+)")
SCAN_PERIOD = 0.1  # of the search for new processes and their mapped memory [s]


class Processes:
    """Processes of a campaign and their descendants.

    Args:
        marker: ``NAME=VALUE`` in their environment.

    Attributes:
        memory: Names of all files in /dev/shm that a process mapped at any time.
    """

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode()
        self._known: dict[tuple[int, str], bool] = {}
        self._stopped: dict[int, float] = {}
        self._next = 0.0
        self.memory: set[str] = set()

    def scan(self) -> None:
        """Update which processes are stopped and, every SCAN_PERIOD, search for new ones."""
        for pid in [pid for (pid, _), has_marker in self._known.items() if has_marker]:
            self.stopped_since(pid)
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + SCAN_PERIOD
        for pid in self._all():
            with contextlib.suppress(OSError):
                self.memory.update(_SHARED.findall((PROC / str(pid) / "maps").read_text()))

    def stopped_since(self, pid: int) -> float:
        """Return the time at which a signal stopped a process (Unix time) [s], or 0."""
        if _stat(pid)[0] == "T":
            return self._stopped.setdefault(pid, time.time())
        self._stopped.pop(pid, None)
        return 0.0

    def running(self) -> list[dict[str, Any]]:
        """Return id and command line of all running processes."""
        return [
            {"pid": pid, "what": _command(pid)}
            for pid in self._all()
            if _stat(pid)[0] not in "ZX?"
        ]

    def _all(self) -> list[int]:
        found, known = [], {}
        for folder in PROC.iterdir():
            if not folder.name.isdigit():
                continue
            pid = int(folder.name)
            key = (pid, _stat(pid)[1])
            has_marker = self._known.get(key)
            # Search again after False: the environment changes at exec.
            if not has_marker:
                try:
                    has_marker = self._marker in (folder / "environ").read_bytes().split(b"\0")
                except OSError:
                    continue
            known[key] = has_marker
            if has_marker:
                found.append(pid)
        self._known = known
        return found


def _stat(pid: int) -> tuple[str, str]:
    """Return state and start time of a process."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "?", ""
    return fields[0], fields[19]


def _command(pid: int) -> str:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""
