# SPDX-License-Identifier: Apache-2.0
"""A helping process that is spoken with in lines, and ends when its standard input does."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from multipanda_py.exceptions import BenchError
from multipanda_py.machine.child import ended, module_command
from multipanda_py.machine.closing import Closing
from multipanda_py.machine.interruption import time_left

READY = "ready"
END = 10.0
"""For a process to end [s]."""


class Child(Closing):
    """A module of the package in a process of its own.

    Whatever happens to its owner, even SIGKILL, closes its standard input, and so ends it.

    Args:
        module: Its full name.
        arguments: Of it.
        environment: Beside this process's own.
        through: Command that starts commands elsewhere.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
    ) -> None:
        self._name = module
        self.process = subprocess.Popen(
            [*through, *module_command(module, *arguments)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})}, bufsize=0,
        )  # fmt: skip
        self._rest = b""

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def line(self, timeout: float) -> str:
        """Return the next line.

        Raises:
            BenchError: If the process ends, or says nothing in time.
        """
        out, deadline = self.process.stdout, time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if out is None or left <= 0.0 or not select.select([out], [], [], left)[0]:
                raise BenchError(f"{self._name} said nothing for {timeout:g} s")
            data = os.read(out.fileno(), 65536)
            if not data:
                raise BenchError(f"{self._name} ended with code {self.process.wait()}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def wait_until_ready(self, timeout: float) -> None:
        """Wait for its first line.

        Raises:
            BenchError: If it is another one than ``ready``, or does not come.
        """
        line = self.line(timeout)
        if line != READY:
            raise BenchError(f"{self._name}: {line}")

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            BenchError: If there is none in time.
        """
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self.line(timeout))
        return answer

    def finish(self) -> str:
        """End it; return what it has said since."""
        if self.process.stdin is not None:
            self.process.stdin.close()
            self.process.stdin = None
        try:
            last, _ = self.process.communicate(timeout=END)
        except subprocess.TimeoutExpired:
            self.close()
            return ""
        return (self._rest + last).decode()

    def close(self) -> None:
        """End it, by force if need be."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        ended(self.process, time_left(END))
        if self.process.stdout is not None:  # only now: it may have something to say at its end
            self.process.stdout.close()
