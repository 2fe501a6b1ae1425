# SPDX-License-Identifier: Apache-2.0
"""Child processes of the benchmark, and processor time and memory of processes from /proc."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multipanda_py.exceptions import BenchError
from multipanda_py.realtime.system.child_process import Closeable, ended, module_command
from multipanda_py.realtime.system.signals import time_left

READY = "ready"
END_TIMEOUT = 10.0
"""Time limit for a process to end [s]."""


class Child(Closeable):
    """Child process that runs a module of this package, and always ends with its owner.

    Args:
        module: Full name of the module.
        arguments: Command-line arguments of the module.
        environment: Environment variables added to those of this process.
        through: Command with arguments, such as ``nsenter``, that starts the process in another
            network namespace.
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
        return self.process.pid

    def line(self, timeout: float) -> str:
        """Wait for the next line of the child's standard output, and return it.

        Raises:
            BenchError: The process ends, or prints no line in time.
        """
        out, deadline = self.process.stdout, time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if out is None or left <= 0.0 or not select.select([out], [], [], left)[0]:
                raise BenchError(f"{self._name}: no output for {timeout:g} s")
            data = os.read(out.fileno(), 65536)
            if not data:
                raise BenchError(f"{self._name}: ended with code {self.process.wait()}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def wait_until_ready(self, timeout: float) -> None:
        """Wait for the first line, which must be ``ready``.

        Raises:
            BenchError: The first line is a different one, or does not come in time.
        """
        line = self.line(timeout)
        if line != READY:
            raise BenchError(f"{self._name}: {line}")

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send a request as a line of JSON, and return the response of the child.

        Raises:
            BenchError: There is no response in time.
        """
        if self.process.stdin is not None:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self.line(timeout))
        return answer

    def stop_and_read(self) -> str:
        """Stop the process and return its remaining output; empty if it had to be killed."""
        if self.process.stdin is not None:
            self.process.stdin.close()
            self.process.stdin = None
        try:
            last, _ = self.process.communicate(timeout=END_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.close()
            return ""
        return (self._rest + last).decode()

    def close(self) -> None:
        """Stop the process; kill it after a time limit."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        ended(self.process, time_left(END_TIMEOUT))
        # The child may still print while it ends, so its output is closed last.
        if self.process.stdout is not None:
            self.process.stdout.close()


_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Use of processor and memory by one process.

    Attributes:
        name: Module that the process runs.
        cores: Processor time per wall time, as a number of fully used cores.
        resident_mib: Memory, with shared pages in full [MiB].
        proportional_mib: Memory, with shared pages divided among their users [MiB].
    """

    name: str
    cores: float
    resident_mib: float
    proportional_mib: float


def process_tree(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(other for child in children for other in process_tree(int(child)))]


def module_of(pid: int) -> str:
    """Return the module that a process runs, such as ``ros.node.node``, without ``multipanda_py``.

    The result is the program name for other programs, and empty if the process has ended.
    """
    if pid == os.getpid():
        return "bench"
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return ""
    result = [word for word in words if re.fullmatch(r"multipanda_py(\.\w+)+", word)]
    return result[0].removeprefix("multipanda_py.") if result else Path(words[0]).name


def processor_time(pid: int) -> float:
    """Return the processor time of a process [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def memory_mib(pid: int) -> tuple[float, float]:
    """Return resident and proportional memory of a process [MiB]."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    result = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", rollup, re.MULTILINE))
    return int(result["Rss"]) / 1024, int(result["Pss"]) / 1024


def cores_of(figures: Mapping[str, Any], name: str) -> float:
    """Return the processor load of all processes that run a module, in the results of a condition.

    Returns:
        Load as a number of fully used cores.
    """
    return sum(float(one["cores"]) for one in figures["processes"] if one["name"] == name)


class UsageMeter:
    """Meter of the memory and processor time of processes from now on."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._start_time = time.monotonic()
        self._before: dict[int, float] = {}
        for pid in pids:
            with contextlib.suppress(OSError):
                self._before[pid] = processor_time(pid)

    def read(self) -> list[Usage]:
        """Return processor and memory use of the processes that still run."""
        passed, result = max(time.monotonic() - self._start_time, 1e-9), []
        for pid, before in self._before.items():
            with contextlib.suppress(OSError):
                cores = (processor_time(pid) - before) / passed
                result.append(Usage(module_of(pid), cores, *memory_mib(pid)))
        return result
