# SPDX-License-Identifier: Apache-2.0
"""A module in a process of its own that is told lines, and says some."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator

from multipanda_py.machine.child import end_with_parent, ended, module_command

END = 5.0
"""For it to end by itself [s]."""
_PIECE = 1 << 16


class LineProcess:
    """Run a module that reads lines until its input ends, and then ends.

    Args:
        module: Its full name, of an installed package.
        arguments: What follows.
        is_heard: Whether its lines are for :meth:`lines`, else for this program's own output.

    Thread: one at a time; made by the main one, whose end ends it.
    """

    def __init__(self, module: str, *arguments: str, is_heard: bool = True) -> None:
        self._part = b""
        self._process = subprocess.Popen(
            module_command(module, *arguments), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if is_heard else None,
            start_new_session=True, preexec_fn=end_with_parent,
        )  # fmt: skip
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def tell(self, line: str) -> None:
        """Tell it a line.

        Raises:
            BrokenPipeError: If it has ended.
        """
        pipe = self._process.stdin
        if pipe is None or not self.is_alive:
            raise BrokenPipeError
        pipe.write(f"{line}\n".encode())
        pipe.flush()

    def tell_now(self, line: str) -> None:
        """Tell it a line that is only of now: lost if it has ended, or does not read."""
        pipe = self._process.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):  # no line this short is written in part
                os.set_blocking(pipe.fileno(), False)
                os.write(pipe.fileno(), f"{line}\n".encode())

    def lines(self) -> Iterator[bytes]:
        """Yield what it has said, without waiting."""
        out = self._process.stdout
        while out is not None and (piece := out.read(_PIECE)):
            *lines, self._part = (self._part + piece).split(b"\n")
            yield from lines

    def close(self) -> None:
        """End it; safe to call twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        ended(self._process, END)
