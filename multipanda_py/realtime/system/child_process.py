# SPDX-License-Identifier: Apache-2.0
"""Child processes that exchange lines with their parent, and their standard streams."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from typing_extensions import Self


class Closeable(ABC):
    """Base class of context managers that release their resources in :meth:`close`."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def input_is_open() -> bool:
    """Return True until the parent process closes standard input or ends; discard all input."""
    return not select.select([0], [], [], 0.0)[0] or bool(os.read(0, 4096))


_MAX_LINE_SIZE = select.PIPE_BUF  # Maximum size of a line that is written at once [bytes].


def open_closed_streams() -> None:
    """Open the null device for each standard stream that was closed at the start of the process.

    A file or socket that is opened later could otherwise get the number of a closed stream, and
    receive the output of libraries.

    Thread: main, before anything is opened.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # Gets the lowest free descriptor, which is ``number``.
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def never_wait_for_output(numbers: Sequence[int] = (1, 2)) -> None:
    """Make output to terminals and pipes non-blocking: output that exceeds a full buffer is lost.

    Other processes that share the file descriptors keep blocking output.

    Args:
        numbers: Numbers of the file descriptors.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for number in numbers:
        # The file may be closed, have no reader, or belong to another user.
        with contextlib.suppress(OSError):
            mode = os.fstat(number).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                fd = os.open(f"/proc/self/fd/{number}", flags)
                os.dup2(fd, number)
                os.close(fd)


def log_line(text: str) -> None:
    """Write a line to standard error if this does not block."""
    with contextlib.suppress(OSError, ValueError):  # The terminal may be closed.
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"{text}\n".encode()[:_MAX_LINE_SIZE])


LOOP_NAME, DRIVER_NAME = "multipanda_loop", "multipanda_arm"
"""Process names of loops and drivers; the kernel keeps 15 characters."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_SAFE_PATH = (3, 11)
"""First Python version with ``-P``."""
_BOOTSTRAP = (
    "import sys; del {}sys.argv[0]; import signal; signal.signal(signal.SIGINT, signal.{}); "
    "import runpy; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def module_command(
    module: str,
    *arguments: str,
    version: tuple[int, ...] = tuple(sys.version_info[:2]),
    hears_interrupts: bool = False,
) -> list[str]:
    """Return the command that runs a module of an installed package.

    Unlike ``python -m``, the command does not import from the current directory. ``PYTHONPATH``
    stays effective.

    Args:
        module: Full name of the module.
        arguments: Arguments of the module.
        version: Version of the Python interpreter.
        hears_interrupts: True if the process handles Ctrl-C itself; False to ignore Ctrl-C.
    """
    handler = "default_int_handler" if hears_interrupts else "SIG_IGN"
    # A file ``pydantic.py`` in the current directory would otherwise run within the control loop.
    # colcon workspaces need ``PYTHONPATH``.
    if version >= _SAFE_PATH:
        return [sys.executable, "-P", "-c", _BOOTSTRAP.format("", handler), module, *arguments]
    without = _BOOTSTRAP.format("sys.path[0], ", handler)
    return [sys.executable, "-c", without, module, *arguments]


def ended(process: subprocess.Popen[Any], seconds: float) -> int:
    """Wait for the end of a process, and return its exit code.

    Args:
        process: Process that was requested to end.
        seconds: Time after which the process is killed [s].
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def end_with_parent() -> None:
    """Let the kernel send SIGTERM to this process when its parent dies, even by SIGKILL.

    Use it as ``preexec_fn`` of a child that the main thread starts.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def name_process(name: str) -> None:
    """Set the name of this process in the kernel; call it from its main thread."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def read_line() -> bytes:
    """Read one line of standard input without buffering what follows it."""
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:
        return unbuffered.readline()


def read_data() -> Any:
    """Return the data that the parent process sends as one line of JSON.

    Raises:
        SystemExit: If the parent has ended before it sent the line.
    """
    line = read_line()
    if not line.endswith(b"\n"):
        raise SystemExit(1)
    return json.loads(line)


def lines() -> Iterator[bytes]:
    """Yield the lines of standard input as they arrive."""
    # A thread that waits for ``sys.stdin`` would cause a fatal error of Python at the end of the
    # process.
    received = b""
    while data := os.read(0, 65536):
        *whole, received = (received + data).split(b"\n")
        yield from whole
    if received:
        yield received


def end_of_input() -> threading.Event:
    """Return an event that is set when the parent process closes standard input or dies.

    A thread discards all input.
    """
    ended = threading.Event()

    def wait() -> None:
        while os.read(0, 4096):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def leave(code: int) -> NoReturn:
    """End this process even if threads of other libraries, such as OpenGL, still run."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


END_TIMEOUT = 5.0
"""Timeout of the end of a child process before it is killed [s]."""
_READ_SIZE = 1 << 16  # Size of the pieces in which output is read [bytes].


class JsonLinesChild:
    """Child process that runs a module, and exchanges lines of text with this process.

    Args:
        module: Full name of a module of an installed package.
        arguments: Arguments of the module.
        captures_output: True to read the output of the child with :meth:`lines`; False to let the
            child write to the standard output of this process.

    Thread: one at a time. Create it in the main thread, because the child ends with its creating
    thread.
    """

    def __init__(self, module: str, *arguments: str, captures_output: bool = True) -> None:
        self._part = b""
        self._process = subprocess.Popen(
            module_command(module, *arguments), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if captures_output else None,
            start_new_session=True, preexec_fn=end_with_parent,
        )  # fmt: skip
        if self._process.stdout is not None:
            os.set_blocking(self._process.stdout.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, line: str) -> None:
        """Send a line to the standard input of the process.

        Raises:
            BrokenPipeError: If the process has ended.
        """
        pipe = self._process.stdin
        if pipe is None or not self.is_alive:
            raise BrokenPipeError
        pipe.write(f"{line}\n".encode())
        pipe.flush()

    def send_nowait(self, line: str) -> None:
        """Send a line without blocking; it is lost if the process has ended or does not read."""
        pipe = self._process.stdin
        if pipe is not None:
            # The kernel writes short lines completely or not at all, even to a full pipe.
            with contextlib.suppress(OSError):
                os.set_blocking(pipe.fileno(), False)
                os.write(pipe.fileno(), f"{line}\n".encode())

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that the process has written since the last call, without waiting."""
        out = self._process.stdout
        while out is not None and (piece := out.read(_READ_SIZE)):
            *lines, self._part = (self._part + piece).split(b"\n")
            yield from lines

    def close(self) -> None:
        """Stop the process; safe to call twice."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        ended(self._process, END_TIMEOUT)
