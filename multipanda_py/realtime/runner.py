# SPDX-License-Identifier: Apache-2.0
"""Runners of the loop within the owning process: stepped by the caller, or in a thread."""

from __future__ import annotations

import gc
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.loop_state import LoopState
from multipanda_py.realtime.shared_memory import Mailbox, SharedFlag
from multipanda_py.realtime.startup import build_loop, come_up
from multipanda_py.realtime.timing import run

STOP_TIMEOUT = 5.0
"""Timeout of the end of a loop [s]."""
HEARTBEAT_PERIOD = 0.05
"""Period of the heartbeat of the owning process [s]."""
_POLL_PERIOD = 2e-3  # Pause between two checks of a condition [s].
_ANSWER_PERIOD = 1e-4  # Pause in which the loop may respond [s].


class Runner(ABC):
    """Interface that starts, monitors and stops one loop.

    Args:
        config: Configuration of the cell.
        specs: Controllet instances of the cell.
        mailbox: Shared memory of the loop and its owner.
    """

    def __init__(
        self, config: CellConfig, specs: Sequence[InstanceSpec], mailbox: Mailbox
    ) -> None:
        self._config, self._specs, self._mailbox = config, specs, mailbox

    @abstractmethod
    def start(self) -> list[str]:
        """Start the loop; return its warnings, such as denied real-time rights."""

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`LoopError` with the reason if the loop is not running."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the loop; safe to call twice."""

    def beat(self) -> None:
        """Send the heartbeat of this process to the loop."""
        self._mailbox.words[SharedFlag.CLIENT_HEARTBEAT] = time.monotonic_ns()

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def loop(self) -> ControlLoop:
        """Control loop, which only an inline runner gives access to.

        Raises:
            LoopError: If the loop runs in another thread or process.
        """
        raise LoopError("the loop runs in another thread or process; use placement inline")

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Restore a saved state of the loop.

        Args:
            state: Saved state; None for the state of the start.
            seed: New seed of the random generators; None restores their saved state.

        Raises:
            LoopError: If the loop runs in another thread or process.
        """
        raise LoopError("only a loop with placement inline can be reset")

    def step(self, cycles: int) -> None:
        """Run a number of cycles, which only an inline runner allows.

        Raises:
            LoopError: If the loop runs in another thread or process.
        """
        raise LoopError(f"cannot step {cycles} cycles: only placement inline allows this")

    def cycle_age(self, started_ns: int) -> float:
        """Return the time since the newest cycle began, or since the start [s]."""
        beat = self._mailbox.words[SharedFlag.LOOP_HEARTBEAT] or started_ns
        return (time.monotonic_ns() - beat) * 1e-9

    def pause(self) -> None:
        """Give the loop time to respond: a fraction of its period, or a whole cycle inline.

        Raises:
            LoopError: If the loop is not running.
        """
        self.check()
        time.sleep(_ANSWER_PERIOD)

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Let the loop run until a condition is met; return False after a timeout.

        Args:
            condition: Function that is called every few milliseconds.
            timeout: Timeout in wall time [s].

        Raises:
            LoopError: If the loop is not running.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if condition():
                return True
            self.check()
            time.sleep(_POLL_PERIOD)
        return condition()


def start_loop(loop: ControlLoop, config: CellConfig, warm_up: int = 300) -> None:
    """Start a loop; if this fails, release the connected arms.

    Args:
        loop: Loop to start.
        config: Configuration of the cell.
        warm_up: Number of updates of each controllet before the first cycle.
    """
    try:
        loop.start(config.active, warm_up)
    except BaseException:
        loop.close()
        raise


class InlineRunner(Runner):
    """Runner whose cycles run on request, in the thread of the caller and on a virtual clock."""

    def start(self) -> list[str]:
        """Build and start the loop at time zero."""
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        start_loop(self._loop, self._config, warm_up=2)
        self._loop.enable_commands()
        self._loop.finish_start()
        self._period_ns = round(1e9 / self._config.cell.rate)
        self._now_ns = 0
        self._at_start = self._loop.save()
        self._open = True
        return self._loop.take_warnings()

    def check(self) -> None:
        """Raise an error if the cell is closed.

        Raises:
            LoopError: If the cell is closed.
        """
        if not getattr(self, "_open", False):
            raise LoopError("the loop is not running: the cell is closed")

    @property
    def loop(self) -> ControlLoop:
        """Control loop, for use between two cycles."""
        self.check()
        return self._loop

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Restore a saved state, or the state of the start; the virtual clock continues."""
        self.check()
        self._loop.load(self._at_start if state is None else state, seed, self._now_ns)

    def step(self, cycles: int) -> None:
        """Run ``cycles`` cycles as fast as possible."""
        self.check()
        cycle, step = self._loop.cycle, self._period_ns
        for _ in range(cycles):
            self._now_ns += step
            cycle(self._now_ns, self._now_ns)

    def cycle_age(self, started_ns: int) -> float:
        """Return 0: the virtual clock does not advance between calls."""
        return 0.0

    def pause(self) -> None:
        self.step(1)

    def wait(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Run cycles until a condition is met; return False after a timeout.

        Args:
            condition: Function that returns True when the condition is met.
            timeout: Maximum simulated time [s].
        """
        for _ in range(round(timeout * self._config.cell.rate)):
            if condition():
                return True
            self.step(1)
        return condition()

    def stop(self) -> None:
        """Release the arms."""
        if getattr(self, "_open", False):
            self._open = False
            self._loop.close()


class ThreadRunner(Runner):
    """Runner of the paced loop in a thread, for tests and laptops; other threads delay it."""

    def start(self) -> list[str]:
        """Start the thread and wait until real arms execute commands or have a fault."""
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        start_loop(self._loop, self._config)
        gc.collect()  # Collect garbage now, so that no cycle waits for it.
        result = self._loop.take_warnings()
        self._stopping = False
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()
        self._is_up.wait()
        result += self._loop.take_warnings()
        return [*result, "the loop runs in a thread: other threads of this process delay it"]

    def _run(self) -> None:
        period = 1.0 / self._config.cell.rate
        try:
            come_up(self._loop, period, lambda: not self._stopping)
        finally:
            self._is_up.set()
        run(self._loop, period, lambda: not self._stopping)

    def check(self) -> None:
        """Raise an error if the thread is not running.

        Raises:
            LoopError: If the thread is not running.
        """
        thread = getattr(self, "_thread", None)
        if thread is None or not thread.is_alive():
            raise LoopError("the loop's thread is not running")

    def stop(self) -> None:
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_alive():
            self._stopping = True
            thread.join(STOP_TIMEOUT)
            self._loop.close()
