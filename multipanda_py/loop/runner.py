# SPDX-License-Identifier: Apache-2.0
"""Where the loop runs: a process of its own, a thread, or the caller's hands."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.loop.build import build_loop
from multipanda_py.loop.cycle import ControlLoop
from multipanda_py.loop.mailbox import Mailbox, Word
from multipanda_py.loop.pacing import run
from multipanda_py.machine.child import module_command

START_TIMEOUT = 60.0
STOP_TIMEOUT = 5.0
HEARTBEAT_PERIOD = 0.05


class Runner(ABC):
    """Starts, watches and stops one loop."""

    def __init__(
        self, config: CellConfig, specs: Sequence[InstanceSpec], mailbox: Mailbox
    ) -> None:
        self._config, self._specs, self._mailbox = config, specs, mailbox

    @abstractmethod
    def start(self) -> list[str]:
        """Start the loop; return what the machine refused it, as sentences."""

    @abstractmethod
    def check(self) -> None:
        """Raise :class:`LoopError` if the loop is not running, and say why."""

    @abstractmethod
    def stop(self) -> None:
        """End the loop; safe to call twice."""

    def beat(self) -> None:
        """Show the loop that its owner is alive."""
        self._mailbox.words[Word.CLIENT_HEARTBEAT] = time.monotonic_ns()

    def step(self, cycles: int) -> None:
        """Run cycles by hand, which only an inline loop allows."""
        raise LoopError(f"cannot step {cycles} cycles: the loop runs by itself; use inline")


class InlineRunner(Runner):
    """Cycles run when asked for, in the caller's thread, on a clock of their own."""

    def start(self) -> list[str]:
        """Build and start the loop at cycle time zero."""
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        _start(self._loop, self._config, warm_up=2)
        self._period_ns = round(1e9 / self._config.cell.rate)
        self._now_ns = 0
        self._open = True
        return []

    def check(self) -> None:
        """An inline loop runs as long as it is open."""
        if not getattr(self, "_open", False):
            raise LoopError("the loop is not running: the cell is closed")

    def step(self, cycles: int) -> None:
        """Run ``cycles`` cycles as fast as the machine can."""
        self.check()
        cycle, step = self._loop.cycle, self._period_ns
        for _ in range(cycles):
            self._now_ns += step
            cycle(self._now_ns, self._now_ns)

    def stop(self) -> None:
        """Release the arms."""
        if getattr(self, "_open", False):
            self._open = False
            self._loop.close()


class ThreadRunner(Runner):
    """The paced loop in a thread: for tests and laptops; other threads make it late."""

    def start(self) -> list[str]:
        """Start the thread."""
        self.beat()
        self._loop = build_loop(self._config, self._specs, self._mailbox)
        _start(self._loop, self._config)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)
        self._thread.start()
        return ["the loop runs in a thread: other threads of this process will make it late"]

    def _run(self) -> None:
        run(self._loop, 1.0 / self._config.cell.rate, lambda: not self._stopping)

    def check(self) -> None:
        """Raise if the thread is not running."""
        thread = getattr(self, "_thread", None)
        if thread is None or not thread.is_alive():
            raise LoopError("the loop's thread is not running")

    def stop(self) -> None:
        """End the thread and release the arms."""
        thread = getattr(self, "_thread", None)
        if thread is not None and thread.is_alive():
            self._stopping = True
            thread.join(STOP_TIMEOUT)
            self._loop.close()


def _start(loop: ControlLoop, config: CellConfig, warm_up: int = 300) -> None:
    """Start a loop; if that fails, let go of the arms that it has connected."""
    try:
        loop.start(config.active, warm_up)
    except BaseException:
        loop.close()
        raise


class ProcessRunner(Runner):
    """The paced loop in a real-time process of its own."""

    def __init__(
        self,
        config: CellConfig,
        specs: Sequence[InstanceSpec],
        mailbox: Mailbox,
        inherited: Sequence[int] = (),
    ) -> None:
        """Keep descriptors in ``inherited`` open in the loop's process for as long as it lives."""
        super().__init__(config, specs, mailbox)
        self._inherited = tuple(inherited)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the loop."""
        return self._process.pid if self._process is not None else -1

    def start(self) -> list[str]:
        """Start the process and wait until the loop runs."""
        fd = self._mailbox.fd
        self.beat()
        process = subprocess.Popen(
            module_command("multipanda_py.loop.process", str(fd)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(fd, *self._inherited),
            start_new_session=True,  # Ctrl-C is for the owner, who ends the loop
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise LoopError("the loop's process has no pipes")
        process.stdin.write(self._config.model_dump_json().encode() + b"\n")
        process.stdin.flush()
        deadline = time.monotonic() + START_TIMEOUT
        while not select.select([process.stdout], [], [], HEARTBEAT_PERIOD)[0]:
            self.beat()
            if time.monotonic() > deadline:
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
        """Raise if the process is not running, and say how it ended."""
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
        """Ask the loop to end, and make sure that it does."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            self._mailbox.words[Word.SHUTDOWN] = 1
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
