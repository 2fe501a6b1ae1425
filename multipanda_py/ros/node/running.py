# SPDX-License-Identifier: Apache-2.0
"""How the node's process runs: its executor, its cores, and what ends it."""

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
from multipanda_py.realtime.system.priority import loop_cpu
from multipanda_py.realtime.system.signals import Interrupted, take_signals

if TYPE_CHECKING:
    from multipanda_py.ros.node.guard import GuardedNode

SPIN_TIMEOUT = 0.2
"""Longest wait for an event before signals are looked at [s]."""
CALLBACK_PATIENCE = 5.0
"""Maximum time of a callback after a signal that ends the program [s]."""


class StopSignals:
    """Turn SIGINT, SIGTERM and SIGHUP into a quiet end.

    A signal only sets ``received``, so that no callback, no call of the middleware and no
    clean-up is cut in two; the main thread looks at it between two steps of the start. Only
    what is within :meth:`interruptible`, where the start waits for others, is left at once.
    A callback that never returns prevents the main thread from polling. A second thread therefore
    receives signals too, and ends the process if :meth:`serving` is not left in time.

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
        """Raise :class:`.Interrupted` if a signal has come."""
        if self._number:
            raise Interrupted(self._number)

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let the first signal raise :class:`.Interrupted` within."""
        self._interruptible = True
        try:
            self.check()
            yield
        finally:
            self._interruptible = False
        self.check()

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """End the process :data:`CALLBACK_PATIENCE` after a signal, if still within."""
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
                    end_within(CALLBACK_PATIENCE)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._number = self._number or number
        self.received = self.received or signal.Signals(number).name
        if self._interruptible:
            self._interruptible = False
            raise Interrupted(number)


def make_executor(context: Context | None = None) -> Executor:
    """Return the cheapest executor there is: by events, else by wait sets.

    Args:
        context: Of its nodes; None for rclpy's default one.
    """
    try:
        from rclpy.experimental.events_executor import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor(context=context)
    # Turn it with spin_once(): spin() of some releases busy-waits and delivers nothing.
    return EventsExecutor(context=context)


def end_within(patience: float = 30.0) -> None:
    """End this process in any case, with what each of its threads is at, unless :func:`ended`.

    The middleware shares locks with other processes; one that was killed while it held one keeps
    whoever gives anything back, for ever. By a watch that needs neither the interpreter nor this
    thread. A loop that is left so brings its arms to rest and ends. Called again, it counts anew.

    Args:
        patience: How long giving everything back may take [s].
    """
    # By number: started with standard error closed, a node has no such object.
    faulthandler.dump_traceback_later(patience, exit=True, file=2)


def ended() -> None:
    """Call off :func:`end_within`."""
    faulthandler.cancel_dump_traceback_later()


def release(executor: Executor, nodes: list[GuardedNode]) -> None:
    """Give back what the middleware's threads call into, and forget it.

    Python's last collection frees the rest in any order, an executor before those who call it
    among it, and the process that has done its work ends by a segmentation fault. Nothing skips
    that collection: what it finds is gone already, and whatever else has to be done at the end
    is done.

    Args:
        executor: Of the nodes; served no more.
        nodes: All of it; empty afterwards. The one that was made first is the last to go.
    """
    executor.shutdown()
    while nodes:
        nodes.pop().destroy_node()
    gc.unfreeze()
    gc.collect()


def every(node: Node, period: float, callback: Callable[[], None]) -> None:
    """Call back every ``period`` seconds of the machine's time, whatever time /clock tells."""
    node.create_timer(period, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


def leave_loop_core(cell: Cell) -> str:
    """Keep every thread of this process off the core that the loop is pinned to.

    Returns:
        What was refused, or an empty string.
    """
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
