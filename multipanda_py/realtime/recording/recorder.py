# SPDX-License-Identifier: Apache-2.0
"""A recorder's process, as its owner sees it."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from multipanda_py.exceptions import LogError
from multipanda_py.realtime.recording.topics import CellPlan
from multipanda_py.realtime.system.child_process import ended, module_command

START, END = 30.0, 20.0
"""For a recorder to begin, and to write the rest [s]."""


@dataclass(frozen=True)
class Recorded:
    """What has been recorded.

    Attributes:
        files: In their order.
        rows: How many cycles are in them.
        dropped: How many came too fast to be recorded.
        size: Of the files [bytes].
    """

    files: tuple[Path, ...]
    rows: int
    dropped: int
    size: int


def new_file(path: str | Path) -> Path:
    """Return the absolute path of a file that a recording may go to.

    Raises:
        LogError: If it is not named as one, or is there already.
    """
    file = Path(path)
    if file.suffix != ".mcap":
        raise LogError(f"{path}: got suffix {file.suffix!r}, allowed .mcap")
    if file.exists():
        raise LogError(f"{path}: exists already")
    return file.absolute()


def recorded(answer: Mapping[str, Any]) -> Recorded:
    """Return what a recorder says that it has done.

    Raises:
        LogError: If something went wrong: the disk is full.
    """
    if "error" in answer:
        raise LogError(f"the recording is not whole: {answer['error']}")
    files = tuple(Path(file) for file in answer["files"])
    return Recorded(files, answer["rows"], answer["dropped"], answer["size"])


class Recording:
    """Have a process follow a cell's rows, until :meth:`stop`.

    Args:
        plan: The cell.
        fd: Of its shared memory; this process may close it afterwards.
        options: What the process is told, see :mod:`multipanda_py.realtime.recording.process`.
    """

    def __init__(self, plan: CellPlan, fd: int, options: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            module_command("multipanda_py.realtime.recording.process", str(fd)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(fd,),
            start_new_session=True,  # Ctrl-C is for the owner
        )
        self._tell(plan.to_json(), json.dumps(dict(options)))

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until rows are followed.

        Raises:
            LogError: If they are not; says why.
        """
        answer = self._answer(START)
        if answer is None or "error" in answer:
            self._process.kill()
            self._process.wait()
            reason = "its process did not start" if answer is None else answer["error"]
            raise LogError(f"nothing is recorded: {reason}")

    def ask_to_stop(self, reason: str = "") -> None:
        """Have it end, after it has written what it has.

        Args:
            reason: Why the last seconds are worth keeping, in a word.
        """
        self._tell(json.dumps({"end": reason}))

    def stop(self, reason: str = "") -> dict[str, Any]:
        """Do so and wait for it; return what it says of itself, ``error`` among it if so.

        Safe to call twice.
        """
        self.ask_to_stop(reason)
        found: dict[str, Any] = {}
        while (answer := self._answer(END)) is not None:
            found = answer
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        ended(self._process, END)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return found or {"error": "its process was killed"}

    def _tell(self, *lines: str) -> None:
        pipe = self._process.stdin
        with contextlib.suppress(OSError, ValueError):  # it has ended and says why
            if pipe is not None:
                pipe.write("".join(f"{line}\n" for line in lines).encode())
                pipe.flush()

    def _answer(self, timeout: float) -> dict[str, Any] | None:
        """Return its next line, or None if there is none in time or at all."""
        pipe = self._process.stdout
        if pipe is None or pipe.closed or not select.select([pipe], [], [], timeout)[0]:
            return None
        line = pipe.readline()
        return dict(json.loads(line)) if line.strip() else None
