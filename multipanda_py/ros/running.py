# SPDX-License-Identifier: Apache-2.0
"""How the node's process runs: its executor, its cores, and what ends it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.node import Node

from multipanda_py.cell import Cell
from multipanda_py.machine.realtime import loop_cpu

SPIN_TIMEOUT = 0.2
"""Longest wait for an event before signals are looked at [s]."""


class StopSignals:
    """Turn SIGINT and SIGTERM into a quiet end.

    Before ``defer`` a signal interrupts whatever is being started; from then on it only
    sets ``received``, so that no callback and no clean-up is cut in two.

    Attributes:
        received: Name of the first signal, or an empty string.
    """

    def __init__(self) -> None:
        self.received = ""
        self._deferred = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)

    def defer(self) -> None:
        """Let signals wait until the main thread looks at ``received``."""
        self._deferred = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or signal.Signals(number).name
        if not self._deferred:
            self._deferred = True
            raise KeyboardInterrupt


def make_executor() -> Executor:
    """Return the cheapest executor there is: by events, else by wait sets."""
    try:
        from rclpy.experimental.events_executor import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor()
    # Turn it with spin_once(): spin() of some releases busy-waits and delivers nothing.
    return EventsExecutor()


def every(node: Node, period: float, callback: Callable[[], None]) -> None:
    """Call back every ``period`` seconds of the machine's time, whatever time /clock tells."""
    node.create_timer(period, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


def leave_loop_core(cell: Cell) -> str:
    """Keep every thread of this process off the core that the loop is pinned to.

    Returns:
        What was refused, or an empty string.
    """
    core = loop_cpu(cell.config.realtime)
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
