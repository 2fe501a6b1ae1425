# SPDX-License-Identifier: Apache-2.0
"""Selection of a core without another real-time loop."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from multipanda_py.exceptions import CellBusy
from multipanda_py.realtime.system.child_process import DRIVER_NAME, LOOP_NAME
from multipanda_py.realtime.system.lock import CellLock

if TYPE_CHECKING:
    from multipanda_py.config.sections import RealtimeConfig

AUTOMATIC_CPU = -1
"""Value of ``realtime.cpu`` for a core chosen by this module."""
_SCHED_DEADLINE = 6
_REALTIME = (os.SCHED_FIFO, _SCHED_DEADLINE)
"""Scheduling policies of loops. Round robin does not count, because only the node's threads for
stop and self-check have it."""
_PF_KTHREAD = 0x00200000  # Flag of kernel threads in ``/proc/<pid>/stat``.


class PinnedThread(NamedTuple):
    """Scheduling of one thread.

    Attributes:
        name: Name of the thread.
        cpus: Cores that it may run on.
        is_realtime: True if its policy is FIFO or deadline.
    """

    name: str
    cpus: frozenset[int]
    is_realtime: bool

    @property
    def is_pinned_loop(self) -> bool:
        """True if it is a pinned loop; drivers do not count, as they need little time."""
        return (
            len(self.cpus) == 1
            and self.name != DRIVER_NAME
            and (self.is_realtime or self.name == LOOP_NAME)
        )


def running_tasks(proc: Path = Path("/proc")) -> Iterator[PinnedThread]:
    """Yield the pinned threads of all other processes, without those of the kernel."""
    for process in proc.iterdir():
        if not process.name.isdigit() or int(process.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):  # The process may end meanwhile.
            for task in (process / "task").iterdir():
                yield from _pinned(task)


def _pinned(task: Path) -> Iterator[PinnedThread]:
    with contextlib.suppress(OSError, ValueError, IndexError):
        thread = int(task.name)
        cpus = os.sched_getaffinity(thread)
        if len(cpus) != 1:
            return
        policy = os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK
        fields = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()
        if int(fields[6]) & _PF_KTHREAD:
            return
        name = (task / "comm").read_text(errors="replace").strip()
        yield PinnedThread(name, frozenset(cpus), policy in _REALTIME)


def pinned_loops(tasks: Iterable[PinnedThread]) -> dict[int, int]:
    """Return the number of real-time loops that are pinned to a core, by core."""
    counts: dict[int, int] = {}
    for task in tasks:
        if task.is_pinned_loop:
            (cpu,) = task.cpus
            counts[cpu] = counts.get(cpu, 0) + 1
    return counts


def preferred_cores(cpus: Iterable[int], tasks: Iterable[PinnedThread]) -> list[int]:
    """Return cores for a loop, best first: fewest other loops, then highest number.

    Args:
        cpus: Cores that the loop may run on.
        tasks: Threads of the machine.
    """
    counts = pinned_loops(tasks)
    return sorted(cpus, key=lambda cpu: (counts.get(cpu, 0), -cpu))


class LoopCore:
    """Core of one loop, reserved until the last process with its lock ends.

    Without the lock, two cells that start at the same time would choose the same core.

    Attributes:
        realtime: Real-time settings with the number of the core.
        fds: File descriptor of the lock, which the loop's process inherits; empty without a lock.
    """

    def __init__(self, realtime: RealtimeConfig) -> None:
        self.realtime = realtime
        self._lock: CellLock | None = None
        cpus = os.sched_getaffinity(0)
        if realtime.cpu != AUTOMATIC_CPU or len(cpus) < 2:
            return
        tasks = list(running_tasks())
        ranked = preferred_cores(cpus, tasks)
        taken = pinned_loops(tasks)
        for cpu in [cpu for cpu in ranked if cpu not in taken]:
            with contextlib.suppress(CellBusy):
                self._lock = CellLock(f".core-{cpu}")
                ranked = [cpu]
                break
        self.realtime = realtime.model_copy(update={"cpu": ranked[0]})

    @property
    def fds(self) -> list[int]:
        """File descriptors that the loop's process inherits."""
        return [] if self._lock is None else [self._lock.fd]

    def release(self) -> None:
        """Release the core; safe to call twice."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None
