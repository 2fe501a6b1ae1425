# SPDX-License-Identifier: Apache-2.0
"""The processes of a crowd: groups of clients that come one after another, and what they found."""

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
PER_PROCESS = 10  # clients
JOIN = 120.0  # for a group to have its first answers [s]
OVER = 45.0  # for the last answers, and to say what was found, when the time is over [s]


class CrowdTrouble(RuntimeError):
    """The clients cannot be had."""


def start(environment: dict[str, str], *words: Any, **options: Any) -> subprocess.Popen[str]:
    """Start Python, which ends with this process."""
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        env=environment, text=True, preexec_fn=end_with_parent, **options,
    )  # fmt: skip


class Users:
    """Clients of a node, ten to a process.

    All at once they would keep every core busy with the discovery of one another for longer than
    it takes one group after another.

    Args:
        environment: Of the processes.
        clients: How many.
        seconds: For how long they ask.
        say: Is told how far it is.
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

    def come(self) -> None:
        """Start them; return when each has had its first answers.

        Raises:
            CrowdTrouble: If a group does not get there.
        """
        for first in range(0, self._clients, PER_PROCESS):
            count = min(PER_PROCESS, self._clients - first)
            process = start(
                self._environment, HERE / "crowd_user.py", "--clients", count, "--seed", first,
                "--seconds", self._seconds, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            self._processes.append(process)
            if self._line(process, JOIN) != "ready\n":
                raise CrowdTrouble(
                    f"clients {first} to {first + count - 1} had no first answers in {JOIN:g} s"
                )
            self._report(f"{first + count} of {self._clients} clients are there")

    def go(self) -> list[dict[str, Any]]:
        """Let them ask; return what each has found.

        Raises:
            CrowdTrouble: If a group says nothing when the time is over.
        """
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.write("\n")
                process.stdin.flush()
        over = time.monotonic() + self._seconds + OVER
        found: list[dict[str, Any]] = []
        for process in self._processes:
            line = self._line(process, over - time.monotonic())
            if not line:
                raise CrowdTrouble(f"clients said nothing for {OVER:g} s after the time was over")
            found += json.loads(line)
        return found

    def close(self) -> None:
        """End what runs still."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _line(self, process: subprocess.Popen[str], timeout: float) -> str:
        """Return the next line of a process, empty if there is none in time."""
        pipe = process.stdout
        if pipe is None or not select.select([pipe], [], [], max(timeout, 0.0))[0]:
            return ""
        return pipe.readline()
