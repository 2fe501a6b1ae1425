# SPDX-License-Identifier: Apache-2.0
"""Real-time scheduling: cores of loops, priorities, locked memory, and denied rights."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from multipanda_py.config.sections import RealtimeConfig
from multipanda_py.exceptions import CellBusy
from multipanda_py.realtime.system.child_process import DRIVER_NAME, LOOP_NAME
from multipanda_py.realtime.system.lock import CellLock

AUTOMATIC_CPU = -1
"""Value of ``realtime.cpu`` for a core chosen by :class:`LoopCore`."""
_SCHED_DEADLINE = 6
_REALTIME = (os.SCHED_FIFO, _SCHED_DEADLINE)
"""Scheduling policies of loops. Round robin does not count, because only the node's threads for
stop and self-check have it."""
_PF_KTHREAD = 0x00200000  # Flag of kernel threads in ``/proc/<pid>/stat``.


class PinnedThread(NamedTuple):
    """Scheduling of one thread that is pinned to a core.

    Attributes:
        name: Name of the thread.
        cpus: Cores that it may run on.
        is_realtime: True if its scheduling policy is FIFO or deadline.
    """

    name: str
    cpus: frozenset[int]
    is_realtime: bool

    @property
    def is_pinned_loop(self) -> bool:
        """True for a pinned loop, but not for the driver of an arm."""
        return (
            len(self.cpus) == 1
            and self.name != DRIVER_NAME
            and (self.is_realtime or self.name == LOOP_NAME)
        )


def running_tasks(proc: Path = Path("/proc")) -> Iterator[PinnedThread]:
    """Yield the threads of other processes that are pinned to one core, except kernel threads."""
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
    """Return the number of loops that are pinned to each core, by the number of the core."""
    counts: dict[int, int] = {}
    for task in tasks:
        if task.is_pinned_loop:
            (cpu,) = task.cpus
            counts[cpu] = counts.get(cpu, 0) + 1
    return counts


def preferred_cores(cpus: Iterable[int], tasks: Iterable[PinnedThread]) -> list[int]:
    """Return cores for a loop, best first: fewest pinned loops, then highest number.

    Args:
        cpus: Cores that the loop may run on.
        tasks: Pinned threads of the machine, from :func:`running_tasks`.
    """
    counts = pinned_loops(tasks)
    return sorted(cpus, key=lambda cpu: (counts.get(cpu, 0), -cpu))


class LoopCore:
    """Core for the loop of a cell, reserved by a lock while a process of the cell runs.

    Attributes:
        realtime: Real-time settings, whose ``cpu`` is the number of the core.
        fds: File descriptor of the lock, which the loop's process inherits; empty if no core is
            reserved.
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
        # Without a lock, two cells that start at the same time would choose the same core.
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


SYS_NICE, IPC_LOCK = 23, 14
"""Capabilities that override the limits of priorities and of locked memory."""
STATUS = Path("/proc/self/status")
"""File in which the kernel lists the capabilities of this process."""


def has_capability(number: int) -> bool:
    """Return True if this process has a Linux capability, which even root can lack.

    Args:
        number: Number of the capability, such as :data:`SYS_NICE`.
    """
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


# ONFAULT locks a page at its first use, so that unused pages take no memory.
_MCL_CURRENT, _MCL_FUTURE, _MCL_ONFAULT = 1, 2, 4
_PR_SET_TIMERSLACK = 29
_START_NICENESS = -10  # Niceness during the start of a process.
RESEND_THREAD_PREFIX = "dds.asyn"
"""Name of the middleware threads that resend lost messages. They retry in a busy loop while a
reader does not take a message, and would keep that reader from the core."""


def loop_cpu(config: RealtimeConfig) -> int | None:
    """Return the core for the loop, or None if the loop is not pinned.

    For an automatic ``realtime.cpu``, the result is the last core.
    """
    cpus = sorted(os.sched_getaffinity(0))
    if config.cpu == -2 or len(cpus) < 2:
        return None
    return cpus[-1] if config.cpu == AUTOMATIC_CPU else config.cpu


def other_cpus(config: RealtimeConfig) -> list[int]:
    """Return the cores to which no loop is pinned, for example for drivers.

    If loops are pinned to all cores, the result is all cores except that of this cell's loop. On a
    machine with a single core, it is this core.
    """
    cpus = set(os.sched_getaffinity(0))
    others = cpus - {loop_cpu(config)} or cpus
    return sorted(others - set(pinned_loops(running_tasks())) or others)


def keep_cores_awake() -> list[str]:
    """Keep all idle cores out of sleep states until this process ends.

    Returns:
        Warnings, empty unless the kernel denies it.
    """
    try:
        file = os.open("/dev/cpu_dma_latency", os.O_WRONLY | os.O_CLOEXEC)
        # A maximum wake-up latency of 0 us, which applies while the file is open.
        os.write(file, struct.pack("i", 0))
    except OSError as error:
        return [
            f"cores may sleep between cycles ({error.strerror}): cycles start late and take "
            'longer, above all on laptops (allow it by the udev rule \'KERNEL=="cpu_dma_latency", '
            'GROUP="realtime", MODE="0660"\', or set realtime.disable_cpu_idle to false)'
        ]
    return []


def has_priority() -> bool:
    """Return True if this thread has a real-time priority."""
    policy = os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK
    return policy in (os.SCHED_FIFO, os.SCHED_RR)


@contextlib.contextmanager
def before_others(config: RealtimeConfig) -> Iterator[None]:
    """Give the processes that start in this context more computing time, by a lower niceness.

    The niceness stays unchanged if ``realtime.priority`` is 0, or if the machine refuses the
    change.

    Thread: any. The calling thread has the lower niceness in the context, too.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        if config.priority:
            os.setpriority(os.PRIO_PROCESS, 0, min(before, _START_NICENESS))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def end_fast_start() -> None:
    """Set the niceness of this process to that of its parent, when its start is complete.

    Thread: control, of a process started within :func:`before_others`.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, os.getppid()))


@contextlib.contextmanager
def before_ordinary_threads(config: RealtimeConfig) -> Iterator[None]:
    """Give threads that start in this context the lowest real-time priority.

    These threads run before all ordinary threads, but after a loop and its drivers. Priorities
    stay unchanged if ``realtime.priority`` is 0, or if the machine denies the change.

    Thread: any. The calling thread has the priority in the context, too.
    """
    if config.priority == 0 or has_priority():
        yield
        return
    # With round robin, a busy thread does not block the others.
    lowest = os.sched_get_priority_min(os.SCHED_RR)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(lowest))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def make_ordinary(beginning: str) -> None:
    """Set threads of this process whose names start with ``beginning`` to normal priority."""
    for task in os.listdir("/proc/self/task"):
        # A thread may end before its name is read.
        with contextlib.suppress(OSError):
            if Path(f"/proc/self/task/{task}/comm").read_text().startswith(beginning):
                os.sched_setscheduler(int(task), os.SCHED_OTHER, os.sched_param(0))


def enter_realtime(config: RealtimeConfig) -> list[str]:
    """Pin the loop, lock memory, set a FIFO priority and disable the garbage collector.

    Call it last, from the thread that runs the loop.

    Returns:
        Warning for each step that the system denies, with consequence and remedy.

    Thread: control.
    """
    warnings = []
    libc = ctypes.CDLL(None, use_errno=True)
    cpu = loop_cpu(config)
    if cpu is not None:
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            warnings.append(f"cannot pin the loop to core {cpu}: {error.strerror}")
    if config.lock_memory and libc.mlockall(_MCL_CURRENT | _MCL_FUTURE | _MCL_ONFAULT) != 0:
        reason = os.strerror(ctypes.get_errno())
        warnings.append(
            f"cannot lock memory: {reason}; a page fault may delay a cycle "
            "(allow it by 'memlock unlimited' in /etc/security/limits.conf)"
        )
    if config.priority > 0:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(config.priority))
        except OSError as error:
            libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
            warnings.append(
                f"no real-time priority ({error.strerror}): the loop runs at normal priority and "
                "will be late when the machine is busy (allow it by 'rtprio 98' in "
                "/etc/security/limits.conf)"
            )
    gc.collect()
    gc.freeze()
    gc.disable()
    return warnings


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """Disable garbage collection in this context, to speed up work without cyclic garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
