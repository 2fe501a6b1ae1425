# SPDX-License-Identifier: Apache-2.0
"""Runners of the loop: stepped by the caller, in a thread, or in a real-time process."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.cycle import ControlLoop
from multipanda_py.realtime.loop_state import LoopState, restore_state, save_state
from multipanda_py.realtime.shared_memory import Mailbox, SharedFlag
from multipanda_py.realtime.startup import (
    build_loop,
    come_up,
    enable_commands,
    finish_start,
    start_loop,
)
from multipanda_py.realtime.system.child_process import module_command
from multipanda_py.realtime.system.scheduling import before_others
from multipanda_py.realtime.timing import run

START_TIMEOUT = 60.0
"""Timeout of the start of a loop in its own process [s]."""
STOP_TIMEOUT = 5.0
"""Timeout of the end of a loop [s]."""
HEARTBEAT_PERIOD = 0.05
"""Period of the heartbeat of the owning process [s]."""
_POLL_PERIOD = 2e-3  # Pause between two checks of a condition [s].
_ANSWER_PERIOD = 1e-4  # Pause between two checks for a response of the loop [s].


class Runner(ABC):
    """Interface to start, monitor and stop the control loop of a cell.

    Each subclass runs the loop for one value of ``cell.placement``.
    """

    def __init__(
        self, config: CellConfig, specs: Sequence[InstanceSpec], mailbox: Mailbox
    ) -> None:
        self._config, self._specs, self._mailbox = config, specs, mailbox

    @abstractmethod
    def start(self) -> list[str]:
        """Start the loop and return its warnings, such as denied real-time rights."""

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
        """Control loop, accessible only with placement inline.

        Raises:
            LoopError: If the loop runs in another thread or process.
        """
        raise LoopError(
            "the loop runs in another thread or process. Set cell.placement to inline to access it"
        )

    def load(self, state: LoopState | None, seed: int | None) -> None:
        """Restore a saved state of the loop, which only placement inline allows.

        Args:
            state: Saved state; None for the state at the start of the loop.
            seed: New seed of the random generators; None restores their saved state.

        Raises:
            LoopError: If the loop runs in another thread or process.
        """
        raise LoopError("the loop cannot be reset: only cell.placement inline allows this")

    def step(self, cycles: int) -> None:
        """Run a number of cycles, which only placement inline allows.

        Raises:
            LoopError: If the loop runs in another thread or process.
        """
        raise LoopError(f"cannot step {cycles} cycles: only cell.placement inline allows this")

    def cycle_age(self, started_ns: int) -> float:
        """Return the time since the start of the newest cycle [s].

        Args:
            started_ns: Start of the loop, CLOCK_MONOTONIC [ns]. Before the first cycle, the result
                is the time since ``started_ns``.
        """
        beat = self._mailbox.words[SharedFlag.LOOP_HEARTBEAT] or started_ns
        return (time.monotonic_ns() - beat) * 1e-9

    def pause(self) -> None:
        """Wait a fraction of a cycle while the loop runs; with placement inline, run one cycle.

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


def _start_or_release(loop: ControlLoop, config: CellConfig, warm_up_updates: int = 300) -> None:
    try:
        start_loop(loop, config.active, warm_up_updates)
    except BaseException:
        loop.close()
        raise


class InlineRunner(Runner):
    """Runner whose cycles run on request, in the thread of the caller and on a virtual clock."""

    def start(self) -> list[str]:
        """Build and start the loop at time zero; return its warnings."""
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        _start_or_release(self._loop, self._config, warm_up_updates=2)
        enable_commands(self._loop)
        finish_start(self._loop)
        self._period_ns = round(1e9 / self._config.cell.rate)
        self._now_ns = 0
        self._at_start = save_state(self._loop)
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
        """Restore ``state``, or the start state if it is None; the virtual clock continues."""
        self.check()
        saved = self._at_start if state is None else state
        restore_state(self._loop, saved, seed, self._now_ns)

    def step(self, cycles: int) -> None:
        """Run ``cycles`` cycles as fast as possible."""
        self.check()
        cycle, step = self._loop.cycle, self._period_ns
        for _ in range(cycles):
            self._now_ns += step
            cycle(self._now_ns, self._now_ns)

    def cycle_age(self, started_ns: int) -> float:
        """Return 0, because the virtual clock stands still between two cycles."""
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
    """Runner of the loop in a thread.

    Other threads of the same process delay its cycles.
    """

    def start(self) -> list[str]:
        """Start the thread, and wait until real arms execute commands or have a fault.

        Returns:
            Warnings.
        """
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        _start_or_release(self._loop, self._config)
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


class ProcessRunner(Runner):
    """Runner of the loop in a separate real-time process."""

    def __init__(
        self,
        config: CellConfig,
        specs: Sequence[InstanceSpec],
        mailbox: Mailbox,
        inherited: Sequence[int] = (),
    ) -> None:
        super().__init__(config, specs, mailbox)
        self._inherited = tuple(inherited)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the loop, or -1 before the start."""
        return self._process.pid if self._process is not None else -1

    def start(self) -> list[str]:
        """Start the process and wait until the loop runs; return its warnings.

        Raises:
            LoopError: If the loop does not start within :data:`START_TIMEOUT`.
        """
        fd = self._mailbox.fd
        with before_others(self._config.realtime):
            process = subprocess.Popen(
                module_command("multipanda_py.realtime.process", str(fd)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(fd, *self._inherited),
                # In a session of its own, the loop gets no Ctrl-C. The owner stops the loop.
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise LoopError("the process of the loop was started without stdin and stdout")
        process.stdin.write(self._config.model_dump_json().encode() + b"\n")
        process.stdin.flush()
        if not select.select([process.stdout], [], [], START_TIMEOUT)[0]:
            self._kill()
            raise LoopError(f"the loop did not start within {START_TIMEOUT:.0f} s")
        answer = process.stdout.readline()
        if not answer:
            process.wait()
            self.check()
        message = json.loads(answer)
        if "error" in message:
            process.wait()
            raise LoopError(f"the loop did not start: {message['error']}")
        return list(message["warnings"])

    def check(self) -> None:
        """Raise an error if the process of the loop does not run.

        Raises:
            LoopError: If the process does not run; the message states how it ended.
        """
        if self._process is None:
            raise LoopError("the loop is not running: the cell is not started")
        code = self._process.poll()
        if code is not None:
            how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited ({code})"
            raise LoopError(
                f"the loop of cell {self._config.cell.name!r} is not running: "
                f"process {self._process.pid} {how}"
            )

    def stop(self) -> None:
        """Request the end of the loop, and kill its process after :data:`STOP_TIMEOUT`."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            self._mailbox.words[SharedFlag.SHUTDOWN] = 1
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def make_runner(
    config: CellConfig,
    specs: Sequence[InstanceSpec],
    mailbox: Mailbox,
    inherited: Sequence[int] = (),
) -> Runner:
    """Create the runner that ``cell.placement`` selects, without starting it.

    Args:
        config: Configuration of the cell.
        specs: Controllet instances of the cell.
        mailbox: Shared memory between the loop and the owning process.
        inherited: File descriptors that the process of the loop inherits, with placement
            ``process``.
    """
    if config.cell.placement == "process":
        return ProcessRunner(config, specs, mailbox, inherited)
    kind = InlineRunner if config.cell.placement == "inline" else ThreadRunner
    return kind(config, specs, mailbox)
