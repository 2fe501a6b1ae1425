# SPDX-License-Identifier: Apache-2.0
"""Where the loop runs: a process of its own, a thread, or the caller's hands."""

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
from multipanda_py.realtime.shared_memory import Mailbox, Word
from multipanda_py.realtime.system.child_process import module_command
from multipanda_py.realtime.system.priority import before_others

START_TIMEOUT = 60.0
"""How long a loop may take to start [s]."""


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
        with before_others(self._config.realtime):
            process = subprocess.Popen(
                module_command("multipanda_py.realtime.process", str(fd)),
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


def make_runner(
    config: CellConfig,
    specs: Sequence[InstanceSpec],
    mailbox: Mailbox,
    inherited: Sequence[int] = (),
) -> Runner:
    """Return what runs the loop where the cell file places it; not started yet.

    Args:
        config: The cell.
        specs: Its instances.
        mailbox: The records shared with the loop.
        inherited: Descriptors that a process of the loop's own keeps open while it lives.
    """
    if config.cell.placement == "process":
        return ProcessRunner(config, specs, mailbox, inherited)
    kind = InlineRunner if config.cell.placement == "inline" else ThreadRunner
    return kind(config, specs, mailbox)
