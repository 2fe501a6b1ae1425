# SPDX-License-Identifier: Apache-2.0
"""What processes take of the machine, from /proc."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a process has taken in a while.

    Attributes:
        name: The module that it runs.
        cores: Processor time per time.
        resident_mib: Memory, shared pages in full [MiB].
        proportional_mib: Memory, shared pages divided among those who share them [MiB].
    """

    name: str
    cores: float
    resident_mib: float
    proportional_mib: float


def family(pid: int) -> list[int]:
    """Return a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in family(int(child)))]


def module_of(pid: int) -> str:
    """Return the module of this package that a process runs, else its program; empty: gone."""
    if pid == os.getpid():
        return "bench"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    found = [word for word in words if re.fullmatch(r"multipanda_py(\.\w+)+", word)]
    return found[0].removeprefix("multipanda_py.") if found else Path(words[0]).name


def processor_time(pid: int) -> float:
    """Return the processor time that a process has taken [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def memory_mib(pid: int) -> tuple[float, float]:
    """Return resident and proportional memory of a process [MiB]."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", rollup, re.MULTILINE))
    return int(found["Rss"]) / 1024, int(found["Pss"]) / 1024


def cores_of(figures: Mapping[str, Any], name: str) -> float:
    """Return what all processes of a name take, out of ``processes`` of a part of a report."""
    return sum(float(one["cores"]) for one in figures["processes"] if one["name"] == name)


class UsageMeter:
    """Measures processes from its making on.

    Args:
        pids: Of the processes.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        self._begun = time.monotonic()
        self._before: dict[int, float] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                self._before[pid] = processor_time(pid)

    def read(self) -> list[Usage]:
        """Return what those that still live have taken since."""
        passed, found = max(time.monotonic() - self._begun, 1e-9), []
        for pid, before in self._before.items():
            with contextlib.suppress(OSError):
                cores = (processor_time(pid) - before) / passed
                found.append(Usage(module_of(pid), cores, *memory_mib(pid)))
        return found
