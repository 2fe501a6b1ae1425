# SPDX-License-Identifier: Apache-2.0
"""A driver as an operating system sees it: start, talk, find out how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from multipanda_py.machine.child import ended, module_command


class DriverProcess:
    """One run of a driver. No method waits unless its name says so.

    Args:
        module: Full name of the driver's.
        n_joints: Of the arm.
        fds: Memory, state event and torque event.
        first_line: What it is told first.

    Attributes:
        pid: Process id.
        output: File descriptor of its standard output.
    """

    def __init__(self, module: str, n_joints: int, fds: Sequence[int], first_line: str) -> None:
        policy = os.sched_getscheduler(0)
        if policy in (os.SCHED_FIFO, os.SCHED_RR):  # a driver's start must not hold the loop up
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_getparam(0))
        self._process = subprocess.Popen(
            module_command(module, *map(str, (*fds, n_joints))),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=fds, start_new_session=True,
        )  # fmt: skip
        self.pid = self._process.pid
        self.output = -1 if self._process.stdout is None else self._process.stdout.fileno()
        os.set_blocking(self.output, False)
        self._received = b""
        self.tell(first_line)

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):  # it has just died
                os.write(self._process.stdin.fileno(), line.encode() + b"\n")

    def messages(self) -> list[dict[str, Any]]:
        """Return what it has said since."""
        with contextlib.suppress(BlockingIOError):
            self._received += os.read(self.output, 65536)
        *lines, self._received = self._received.split(b"\n")
        return [json.loads(line) for line in lines]

    def has_ended(self) -> bool:
        """Return whether it runs no more."""
        return self._process.poll() is not None

    def ending(self) -> str:
        """Say how it ended."""
        code = self._process.poll()
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"exited ({code})"

    def is_stopped(self) -> bool:
        """Return whether a signal has stopped it."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="utf-8") as file:
                return file.read().rpartition(")")[2].split()[0] in ("T", "t")
        except (OSError, IndexError):
            return False

    def kill(self) -> None:
        """Kill it; :meth:`has_ended` tells when that is done."""
        self._process.kill()

    def wait(self, seconds: float) -> None:
        """Wait until it has ended; kill it if that takes longer."""
        ended(self._process, max(0.0, seconds))

    def close(self) -> None:
        """Close the pipes."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
