# SPDX-License-Identifier: Apache-2.0
"""Processes of a crowd, each with a group of clients, and their results."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from multipanda_py.realtime.system.child_process import end_with_parent

HERE = Path(__file__).resolve().parent
CLIENTS_PER_PROCESS = 10
CONNECT_TIMEOUT = 120.0  # until all clients of a group have their first answers [s]
RESULT_TIMEOUT = 45.0  # of the results, after the end of the test [s]


class CrowdTrouble(RuntimeError):
    """Failed start or missing results of clients."""


def start(environment: dict[str, str], *words: Any, **options: Any) -> subprocess.Popen[str]:
    """Start a Python process that ends with this one."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=environment, text=True, preexec_fn=end_with_parent, **options,
    )  # fmt: skip


class Users:
    """Clients of a node, ten per process.

    The groups start one after another, because discovery among all clients together takes longer.

    Args:
        environment: Environment of the processes.
        clients: Number of clients.
        seconds: Time during which they send requests [s].
        report: Function that prints the progress.
    """

    def __init__(
        self,
        environment: dict[str, str],
        clients: int,
        seconds: float,
        report: Callable[[str], None],
    ) -> None:
        self._environment, self._clients, self._seconds = environment, clients, seconds
        self._report = report
        self._processes: list[subprocess.Popen[str]] = []

    def connect(self) -> None:
        """Start the clients; return when each has its first answers.

        Raises:
            CrowdTrouble: If a group exceeds the timeout.
        """
        for first in range(0, self._clients, CLIENTS_PER_PROCESS):
            count = min(CLIENTS_PER_PROCESS, self._clients - first)
            process = start(
                self._environment, HERE / "crowd_user.py", "--clients", count, "--seed", first,
                "--seconds", self._seconds, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self._processes.append(process)
            if self._line(process, CONNECT_TIMEOUT) != "ready\n":
                raise CrowdTrouble(
                    f"clients {first} to {first + count - 1}: no first answers within "
                    f"{CONNECT_TIMEOUT:g} s"
                )
            self._report(f"{first + count} of {self._clients} clients are connected")

    def run(self) -> list[dict[str, Any]]:
        """Let all clients send requests; return the results of each.

        Raises:
            CrowdTrouble: If a group returns no results.
        """
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.write("\n")
                process.stdin.flush()
        deadline = time.monotonic() + self._seconds + RESULT_TIMEOUT
        results: list[dict[str, Any]] = []
        for process in self._processes:
            line = self._line(process, deadline - time.monotonic())
            if not line:
                raise CrowdTrouble(f"clients: no results {RESULT_TIMEOUT:g} s after the end")
            results += json.loads(line)
        return results

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _line(self, process: subprocess.Popen[str], timeout: float) -> str:
        """Return the next line of a process, or an empty text after the timeout."""
        pipe = process.stdout
        if pipe is None or not select.select([pipe], [], [], max(timeout, 0.0))[0]:
            return ""
        return pipe.readline()
