# SPDX-License-Identifier: Apache-2.0
"""Run the loop in its own real-time process, or choose the runner of the cell file."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopError
from multipanda_py.realtime.runner import STOP_TIMEOUT, InlineRunner, Runner, ThreadRunner
from multipanda_py.realtime.shared_memory import Mailbox, SharedFlag
from multipanda_py.realtime.system.child_process import module_command
from multipanda_py.realtime.system.priority import before_others

START_TIMEOUT = 60.0
"""Timeout of the start of a loop [s]."""


class ProcessRunner(Runner):
    """Runner of the paced loop in its own real-time process."""

    def __init__(
        self,
        config: CellConfig,
        specs: Sequence[InstanceSpec],
        mailbox: Mailbox,
        inherited: Sequence[int] = (),
    ) -> None:
        """Store the configuration.

        Args:
            config: Configuration of the cell.
            specs: Controllet instances of the cell.
            mailbox: Shared memory between the loop and the owning process.
            inherited: File descriptors that the process of the loop inherits and keeps open.
        """
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
                # Ctrl-C then reaches only the owner, which stops the loop.
                start_new_session=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        self._process = process
        if process.stdin is None or process.stdout is None:
            raise LoopError("the loop's process has no pipes")
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
        """Raise an error that states how the process ended, if it does not run.

        Raises:
            LoopError: If the process does not run.
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
        """Request the end of the loop, and kill its process after :data:`.STOP_TIMEOUT`."""
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
    """Create the runner that ``cell.placement`` selects, not started yet.

    Args:
        config: Configuration of the cell.
        specs: Controllet instances of the cell.
        mailbox: Shared memory between the loop and the owning process.
        inherited: File descriptors that a process of the loop inherits and keeps open.
    """
    if config.cell.placement == "process":
        return ProcessRunner(config, specs, mailbox, inherited)
    kind = InlineRunner if config.cell.placement == "inline" else ThreadRunner
    return kind(config, specs, mailbox)
