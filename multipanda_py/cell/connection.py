# SPDX-License-Identifier: Apache-2.0
"""The connection of a cell's handle to its loop: the one place that knows who runs it."""

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
from multipanda_py.realtime.process_runner import make_runner
from multipanda_py.realtime.runner import HEARTBEAT_PERIOD, Runner
from multipanda_py.realtime.shared_memory import Mailbox, Slot, Word
from multipanda_py.realtime.system.cores import LoopCore
from multipanda_py.realtime.system.lock import CellLock
from multipanda_py.state import Vector


class Counts:
    """Requests that came to nothing.

    Attributes:
        rejected: Refused requests, by what was refused: ``left target``, ``switch``.
        clipped: Targets of streams that were clipped to the gate: ``left pose``.
        withdrawn: Requests that were given up before the loop took them: ``switch``.
    """

    def __init__(self) -> None:
        self.rejected: Counter[str] = Counter()
        self.clipped: Counter[str] = Counter()
        self.withdrawn: Counter[str] = Counter()


def seconds(timeout: object, refusal: type[MultipandaError]) -> float:
    """Return a timeout [s] that may be waited for; infinity is for ever.

    Args:
        timeout: What the caller gave.
        refusal: The error that says so if it is no such number.

    Raises:
        refusal: If it is not a number, or not 0 or more.

    Thread: any.
    """
    if isinstance(timeout, (int, float, np.integer, np.floating)) and not (
        isinstance(timeout, bool) or math.isnan(timeout) or timeout < 0
    ):
        return float(timeout)
    raise refusal(f"timeout: got {timeout!r:.60}, allowed a number of seconds, 0 or more")


class Connection:
    """Start a loop, show it that its owner is alive, hand it records, and end it.

    Args:
        names: Of the cell's arms and instances.
        counts: Where withdrawals go.

    Attributes:
        lock: Held by whoever writes to the mailbox: every record has one writer.
        realtime: Real-time settings, with the core of a loop that was started.
        warnings: Sentences about settings that backends or the machine refused.
        started_ns: When the loop was started last, CLOCK_MONOTONIC.
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
            CellBusy: If this cell is running already.
            LoopError: If the loop cannot start.
        """
        if self._runner is not None:
            raise LoopError("the cell is started already")
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
            self._runner.beat()  # from now on silence counts: the patience with a start is over
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def close(self) -> None:
        """End the loop; safe to call twice."""
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

    def beat_by_hand(self) -> None:
        """Leave the heartbeat to :meth:`beat`, so that the loop notices when nobody calls it.

        Said before the start, the first call is what the loop counts from.
        """
        self._by_hand = True

    def beat(self) -> None:
        """Show the loop that this process is alive."""
        if self._runner is not None:
            self._runner.beat()

    @property
    def is_open(self) -> bool:
        """Whether there is a mailbox to read."""
        return self._mailbox is not None

    @property
    def mailbox(self) -> Mailbox:
        """The records shared with the loop.

        Raises:
            LoopError: If the cell is not started.
        """
        if self._mailbox is None:
            raise LoopError("the cell is not started")
        return self._mailbox

    @property
    def loop(self) -> ControlLoop:
        """The loop of an inline cell, between two cycles.

        Raises:
            LoopError: If the cell is not started, or not inline.
        """
        return self._running().loop

    @property
    def pid(self) -> int:
        """Process id of the loop, or of this process when it has none of its own."""
        return os.getpid() if self._runner is None else self._runner.pid

    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""
        self._running().check()

    def why_it_ended(self) -> str:
        """Return ``loop_gone`` if the loop has ended by itself, else an empty string."""
        if self._runner is None:
            return ""
        try:
            self._runner.check()
        except LoopError:
            return "loop_gone"
        return ""

    def silence(self) -> float:
        """Return the time since the loop began its newest cycle [s]; 0 for an inline cell."""
        return 0.0 if self._runner is None else self._runner.silence(self.started_ns)

    def step(self, cycles: int = 1) -> None:
        """Run cycles of an inline cell, as fast as the machine can."""
        self.check()
        self._running().step(cycles)

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Bring an inline loop back to a saved state, or to its start."""
        self._running().load(state, seed)

    def pause(self) -> None:
        """Give the loop the time to answer; see :meth:`.Runner.pause`."""
        self._running().pause()

    def wait(self, condition: Callable[[], bool], timeout: float, what: str = "condition") -> None:
        """Let the loop run until a condition holds.

        Args:
            condition: Asked again every few milliseconds (or every cycle of an inline cell).
            timeout: World time for an inline cell, else wall time [s].
            what: Named in the error.

        Raises:
            LoopTimeout: If it does not hold in time.
        """
        if self._runner is None and condition():
            return  # as when a gripper's motion has ended with the cell
        if not self._running().wait(condition, timeout):
            raise LoopTimeout(f"{what} did not come about within {timeout:g} s")

    def post(self, slot: Slot, record: Vector) -> int:
        """Hand the loop a record, and return its number."""
        with self.lock:
            number = slot.write(record)
            self.mailbox.ring_bell()
        return number

    def trace_torques(self, is_on: bool) -> None:
        """Let the loop record what law and features add, from its next cycle on, or not."""
        with self.lock:
            self.mailbox.words[Word.TRACE] = int(is_on)
            self.mailbox.ring_bell()

    def withdraw(self, slot: Slot, number: int, what: str) -> bool:
        """Make a record void that nobody waits for; return whether that came in time.

        Args:
            slot: Of the record.
            number: Of the record.
            what: Counted if it came in time.
        """
        with self.lock:
            is_void = slot.withdraw(number)
            self._counts.withdrawn[what] += is_void
        return is_void

    def _running(self) -> Runner:
        if self._runner is None:
            raise LoopError("the cell is not started")
        return self._runner
