# SPDX-License-Identifier: Apache-2.0
"""Execution of the node's process: executor, CPU cores, signals and shutdown."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.context import Context
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.realtime.system.scheduling import loop_cpu
from multipanda_py.realtime.system.signals import Interrupted, take_signals

if TYPE_CHECKING:
    from multipanda_py.ros.node.guard import GuardedNode

SPIN_TIMEOUT = 0.2
"""Maximum wait for an event between two checks of signals [s]."""
CALLBACK_TIMEOUT = 5.0
"""Maximum time of a callback after a stop signal, before the process is ended [s]."""


class StopSignals:
    """Handler of SIGINT, SIGTERM and SIGHUP for a clean shutdown.

    A signal sets ``received``, which the main thread checks. It interrupts only code within
    :meth:`interruptible`. If :meth:`serving` is not left in time after a signal, the process ends.

    Attributes:
        received: Name of the first signal, or an empty string.
    """

    def __init__(self) -> None:
        self.received = ""
        self._number = 0
        self._interruptible = False
        self._serving, self._lock = False, threading.Lock()
        read, write = os.pipe()
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        threading.Thread(target=self._receive, args=(read,), name="signals", daemon=True).start()
        take_signals(self._on_signal)

    def check(self) -> None:
        """Raise :class:`.Interrupted` if a signal has arrived."""
        if self._number:
            raise Interrupted(self._number)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first signal raise :class:`.Interrupted` within this context."""
        self._interruptible = True
        try:
            self.check()
            yield
        finally:
            self._interruptible = False
        self.check()

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """End the process if this context is not left :data:`CALLBACK_TIMEOUT` after a signal."""
        with self._lock:
            self._serving = True
        try:
            yield
        finally:
            with self._lock:
                self._serving = False
                ended()

    def _receive(self, pipe: int) -> None:
        while os.read(pipe, 1):
            with self._lock:
                if self._serving:
                    end_within(CALLBACK_TIMEOUT)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._number = self._number or number
        self.received = self.received or signal.Signals(number).name
        if self._interruptible:
            self._interruptible = False
            raise Interrupted(number)


def make_executor(context: Context | None = None) -> Executor:
    """Return rclpy's events executor, or a single-threaded one in releases without it."""
    # The events executor has the lowest CPU load.
    try:
        from rclpy.experimental.events_executor import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor(context=context)
    # The caller must use spin_once(): in some releases, spin() busy-waits and delivers nothing.
    return EventsExecutor(context=context)


def end_within(timeout: float = 30.0) -> None:
    """Print all stacks and end this process after a timeout [s], unless :func:`ended` is called.

    A further call restarts the timeout. After the end of the node, the loop brings its arms to
    rest.
    """
    # Destroying a ROS entity may block forever, if a killed process held a lock of the middleware.
    # This works even if the interpreter is blocked. Not ``sys.stderr``, which is None if standard
    # error was closed at the start.
    faulthandler.dump_traceback_later(timeout, exit=True, file=2)


def ended() -> None:
    """Cancel the timeout of :func:`end_within`."""
    faulthandler.cancel_dump_traceback_later()


def release(executor: Executor, nodes: list[GuardedNode]) -> None:
    """Destroy nodes and executor in a safe order, and collect their memory.

    Args:
        executor: Executor of the nodes, which no longer runs.
        nodes: All nodes; empty afterwards. They are destroyed in reverse order.
    """
    # At its exit, Python frees objects in any order, which may cause a segmentation fault.
    executor.shutdown()
    while nodes:
        nodes.pop().destroy_node()
    gc.unfreeze()
    gc.collect()


def every(node: Node, period: float, callback: Callable[[], None]) -> None:
    """Create a timer on the monotonic clock, independent of ``/clock``, with a period [s]."""
    node.create_timer(period, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


def leave_loop_core(cell: Cell) -> str:
    """Keep all threads of this process off the loop's CPU core; return a message on failure."""
    core = loop_cpu(cell.realtime)
    others = os.sched_getaffinity(0) - {core}
    if cell.config.cell.placement != "process" or core is None or not others:
        return ""
    try:
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), others)
    except OSError as error:
        return f"this process shares core {core} with the loop: {error.strerror}"
    return ""
