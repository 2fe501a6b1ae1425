# SPDX-License-Identifier: Apache-2.0
"""Start and stop of a recorder process, and its result."""

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

START_TIMEOUT, END_TIMEOUT = 30.0, 20.0
"""Timeouts of the start of a recorder, and of its end after the last records [s]."""


@dataclass(frozen=True)
class Recorded:
    """Result of a recording.

    Attributes:
        files: Paths of the files, in the order of recording.
        rows: Number of recorded cycles.
        dropped: Number of cycles that were lost, because the recorder was too slow.
        size: Size of the files [bytes].
    """

    files: tuple[Path, ...]
    rows: int
    dropped: int
    size: int


def new_file(path: str | Path) -> Path:
    """Return the absolute path of a new recording.

    Raises:
        LogError: If the suffix is not ``.mcap``, or the file exists already.
    """
    file = Path(path)
    if file.suffix != ".mcap":
        raise LogError(f"{path}: got suffix {file.suffix!r}, allowed .mcap")
    if file.exists():
        raise LogError(f"{path}: exists already. Choose another path, or remove the file")
    return file.absolute()


def recorded(answer: Mapping[str, Any]) -> Recorded:
    """Convert the report of a recorder process to the result of the recording.

    Raises:
        LogError: If the recorder reports an error, such as a full disk.
    """
    if "error" in answer:
        raise LogError(f"the recording is incomplete: {answer['error']}")
    files = tuple(Path(file) for file in answer["files"])
    return Recorded(files, answer["rows"], answer["dropped"], answer["size"])


class Recording:
    """Recorder process that records the cycles of a cell until :meth:`stop`.

    Args:
        plan: Description of the cell.
        fd: File descriptor of the shared memory of the cell; the caller may close it afterwards.
        options: Options of the process, see :mod:`multipanda_py.realtime.recording.process`.
    """

    def __init__(self, plan: CellPlan, fd: int, options: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            module_command("multipanda_py.realtime.recording.process", str(fd)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(fd,),
            start_new_session=True,  # Ctrl-C reaches only this process, which stops the recorder.
        )
        self._send(plan.to_json(), json.dumps(dict(options)))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def wait_until_ready(self) -> None:
        """Wait until the process records.

        Raises:
            LogError: If the process does not start, with the reason.
        """
        answer = self._next_report(START_TIMEOUT)
        if answer is None or "error" in answer:
            self._process.kill()
            self._process.wait()
            reason = "the recorder did not start" if answer is None else answer["error"]
            raise LogError(f"nothing is recorded: {reason}")

    def ask_to_stop(self, reason: str = "") -> None:
        """Request the end of the process, which first writes the remaining records.

        Args:
            reason: Reason for which a recorder of faults saves the last seconds, as one word for
                the file name; empty to discard them.
        """
        self._send(json.dumps({"end": reason}))

    def stop(self, reason: str = "") -> dict[str, Any]:
        """Stop the process and return its report, with a key ``error`` after an error.

        It is safe to call this twice.

        Args:
            reason: Reason, see :meth:`ask_to_stop`.
        """
        self.ask_to_stop(reason)
        result: dict[str, Any] = {}
        while (answer := self._next_report(END_TIMEOUT)) is not None:
            result = answer
        with contextlib.suppress(OSError, ValueError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        ended(self._process, END_TIMEOUT)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return result or {"error": "its process was killed"}

    def _send(self, *lines: str) -> None:
        pipe = self._process.stdin
        # The recorder may have ended; it has then reported the reason.
        with contextlib.suppress(OSError, ValueError):
            if pipe is not None:
                pipe.write("".join(f"{line}\n" for line in lines).encode())
                pipe.flush()

    def _next_report(self, timeout: float) -> dict[str, Any] | None:
        pipe = self._process.stdout
        if pipe is None or pipe.closed or not select.select([pipe], [], [], timeout)[0]:
            return None
        line = pipe.readline()
        return dict(json.loads(line)) if line.strip() else None
