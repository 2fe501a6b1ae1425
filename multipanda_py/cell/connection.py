# SPDX-License-Identifier: Apache-2.0
"""Connection of a cell to its control loop, which may run in another process."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from multipanda_py.cell.names import CellNames
from multipanda_py.exceptions import LoopError, LoopTimeout, MultipandaError
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.loop_state import LoopState
from multipanda_py.realtime.runner import HEARTBEAT_PERIOD, Runner, make_runner
from multipanda_py.realtime.shared_memory import Mailbox, SeqlockBuffer, SharedFlag
from multipanda_py.realtime.system.lock import CellLock
from multipanda_py.realtime.system.scheduling import LoopCore
from multipanda_py.state import Vector


class Counts:
    """Numbers of requests that were rejected, changed or cancelled.

    Attributes:
        rejected: Number of rejected requests, by subject such as ``left target`` or ``switch``.
        clipped: Number of targets clipped to the gate limits, by subject such as ``left pose``.
        cancelled: Number of requests cancelled before the loop received them, by subject.
    """

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self.clipped: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()


def checked_timeout(timeout: object, refusal: type[MultipandaError]) -> float:
    """Check a timeout and return it [s]; infinity for no limit.

    Raises:
        MultipandaError: If the timeout is not a number, negative or NaN. The type is ``refusal``.
    """
    if isinstance(timeout, (int, float, np.integer, np.floating)) and not (
        isinstance(timeout, bool) or math.isnan(timeout) or timeout < 0
    ):
        return float(timeout)
    raise refusal(f"timeout: got {timeout!r:.60}, allowed a number of seconds, 0 or more")


class Connection:
    """Start the control loop, send it heartbeats and requests, and stop it.

    Attributes:
        lock: Lock to hold while writing to the shared memory.
        realtime: Real-time settings, including the CPU core of the started loop.
        warnings: Sentences about settings that backends or the machine refused.
        started_ns: Start time of the loop [ns], CLOCK_MONOTONIC.
    """

    def __init__(self, names: CellNames, counts: Counts) -> None:
        self._names, self._counts = names, counts
        self.lock = threading.RLock()
        self.warnings: list[str] = []
        self.realtime = names.config.realtime
        self._core: LoopCore | None = None
        self._file_lock: CellLock | None = None
        self._mailbox: Mailbox | None = None
        self._runner: Runner | None = None
        self.started_ns = 0
        self._closing = threading.Event()
        self._by_hand = False

    def open(self) -> None:
        """Start the loop.

        Raises:
            CellBusy: If a cell of the same name is running already.
            LoopError: If the loop cannot start, or is started already.
        """
        if self._runner is not None:
            raise LoopError("the cell is started already. Close it before you start it again")
        config = self._names.config
        has_own_time = config.cell.placement != "inline"
        inherited: list[int] = []
        if has_own_time:
            self._file_lock = CellLock(config.cell.name)
            inherited.append(self._file_lock.fd)
        if config.cell.placement == "process":
            self._core = LoopCore(config.realtime)
            inherited += self._core.fds
            self.realtime = self._core.realtime
            config = config.model_copy(update={"realtime": self.realtime})
        self._mailbox = Mailbox(config, self._names.specs)
        self._runner = make_runner(config, self._names.specs, self._mailbox, inherited)
        self._closing = threading.Event()
        try:
            self.warnings = self._runner.start()
        except BaseException:
            self.close()
            raise
        self.started_ns = time.monotonic_ns()
        if has_own_time and not self._by_hand:
            self._runner.beat()  # The loop expects further heartbeats from now on.
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        """Stop the loop. It is safe to call this twice."""
        if self._runner is not None:
            self._closing.set()
            self._runner.stop()
            self._runner = None
        if self._file_lock is not None:
            self._file_lock.release()
            self._file_lock = None
        if self._core is not None:
            self._core.release()
            self._core = None
        if self._mailbox is not None:
            os.close(self._mailbox.fd)
            self._mailbox = None

    def _beat(self) -> None:
        runner = self._runner
        while runner is not None and not self._closing.wait(HEARTBEAT_PERIOD):
            if self._by_hand:
                return
            runner.beat()

    def set_manual_heartbeat(self) -> None:
        """Disable the automatic heartbeat. See :meth:`.Cell.manual_heartbeat`."""
        self._by_hand = True

    def send_heartbeat(self) -> None:
        """Tell the loop that this process is alive (heartbeat)."""
        if self._runner is not None:
            self._runner.beat()

    @property
    def is_open(self) -> bool:
        """True from :meth:`open` until :meth:`close`, even if the loop ends by itself."""
        return self._mailbox is not None

    @property
    def mailbox(self) -> Mailbox:
        """Shared memory of this process and the loop.

        Raises:
            LoopError: If the cell is not started.
        """
        if self._mailbox is None:
            raise LoopError("the cell is not started. Call start() first")
        return self._mailbox

    @property
    def loop(self) -> ControlLoop:
        """Control loop of an inline cell, for direct access by tests and benchmarks.

        Raises:
            LoopError: If the cell is not started, or not inline.
        """
        return self._running().loop

    @property
    def pid(self) -> int:
        """Process id of the loop; with placement ``thread`` or ``inline``, of this process."""
        return os.getpid() if self._runner is None else self._runner.pid

    def check(self) -> None:
        """Raise :class:`LoopError` with the reason if the loop is not running."""
        self._running().check()

    def end_reason(self) -> str:
        """Return ``loop_gone`` if the loop has ended by itself; empty if it runs or was closed."""
        if self._runner is None:
            return ""
        try:
            self._runner.check()
        except LoopError:
            return "loop_gone"
        return ""

    def cycle_age(self) -> float:
        """Return the time since the start of the newest cycle [s]; 0 for an inline cell."""
        return 0.0 if self._runner is None else self._runner.cycle_age(self.started_ns)

    def step(self, cycles: int = 1) -> None:
        """Run cycles of an inline cell as fast as possible."""
        self.check()
        self._running().step(cycles)

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Restore a saved state of an inline loop, including its random generators.

        Args:
            state: Saved state; None for the initial state.
            seed: New seed of the random generators; None to restore their saved state.
        """
        self._running().load(state, seed)

    def pause(self) -> None:
        """Let the loop run while the caller waits for an answer. See :meth:`.Runner.pause`."""
        self._running().pause()

    def wait(
        self, condition: Callable[[], bool], timeout: float, description: str = "condition"
    ) -> None:
        """Wait until a condition is true. An inline cell is stepped meanwhile.

        Args:
            condition: Function that returns True at the end of the wait. It is called every few
                milliseconds, or every cycle of an inline cell.
            timeout: Maximum wall time to wait [s]; simulated time for an inline cell.
            description: Name of the condition in the message.

        Raises:
            LoopTimeout: If the condition did not become true in time.
        """
        if self._runner is None and condition():
            return  # Gripper motions end with the cell, so waiting for them succeeds.
        if not self._running().wait(condition, timeout):
            raise LoopTimeout(f"waiting for {description} timed out after {timeout:g} s")

    def post(self, slot: SeqlockBuffer, record: Vector) -> int:
        """Write a request, given as an array of numbers, to a buffer in the shared memory.

        Returns:
            Sequence number of the request.
        """
        with self.lock:
            number = slot.write(record)
            self.mailbox.notify()
        return number

    def trace_torques(self, is_on: bool) -> None:
        """Enable or disable the recording of the torques of each controllet and feature."""
        with self.lock:
            self.mailbox.words[SharedFlag.TRACE] = int(is_on)
            self.mailbox.notify()

    def withdraw(self, slot: SeqlockBuffer, number: int, kind: str) -> bool:
        """Withdraw a request; return False if the loop has already received it.

        A withdrawn request is counted in :attr:`Counts.cancelled` with the key ``kind``.
        """
        with self.lock:
            is_void = slot.withdraw(number)
            self._counts.cancelled[kind] += is_void
        return is_void

    def _running(self) -> Runner:
        if self._runner is None:
            raise LoopError("the cell is not started. Call start() first")
        return self._runner
