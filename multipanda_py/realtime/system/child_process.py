# SPDX-License-Identifier: Apache-2.0
"""A module in a process of its own that is told lines, and says some."""

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


class Closing(ABC):
    """Something that ``with`` closes, whatever happens in the block."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; safe to call twice."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


_LIMIT = select.PIPE_BUF


def open_closed_streams() -> None:
    """Open what of standard input, output and error was closed at the start, on nothing.

    The next files and sockets would get their numbers, and whatever a library says would go into
    them; rclpy's executor refuses to begin without a standard error. Thread: main, before
    anything is opened.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(number, True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def never_wait_for_output(numbers: Sequence[int] = (1, 2)) -> None:
    """Let text that nobody takes be lost instead of keeping this process waiting.

    A pager, a terminal after Ctrl-S or a pipe whose reader is stuck takes some 64 kB; then every
    writer would wait, with the interpreter's lock. The descriptors are opened anew, because a
    flag of the old ones would be that of every other process with the same terminal too. Files
    stay as they are; so do sockets, which cannot be opened again.

    Args:
        numbers: Of the descriptors.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    for number in numbers:
        with contextlib.suppress(OSError):  # closed, without a reader, or somebody else's
            mode = os.fstat(number).st_mode
            if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
                fd = os.open(f"/proc/self/fd/{number}", flags)
                os.dup2(fd, number)
                os.close(fd)


def say(text: str) -> None:
    """Write a line to standard error if that takes it at once."""
    with contextlib.suppress(OSError, ValueError):  # the owner's terminal may be gone as well
        if select.select([], [2], [], 0)[1]:
            os.write(2, f"{text}\n".encode()[:_LIMIT])


LOOP, DRIVER = "multipanda_loop", "multipanda_arm"
"""Names of the processes of loops and drivers; the kernel keeps 15 characters."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_SAFE_PATH = (3, 11)
"""First Python with ``-P``."""
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

    ``python -m`` looks for every import in the current directory first: a file ``pydantic.py``
    left there would run within the control loop. So the current directory is left out, while
    ``PYTHONPATH``, through which colcon's workspaces are found, is kept; ``-I`` would ignore it.
    An older Python cannot be told so, and takes the directory out before it imports anything.

    Ctrl-C is for the owner, who ends its children; one that is still importing would answer with
    a trace.

    Args:
        module: Its full name.
        arguments: What follows.
        version: Of the interpreter.
        hears_interrupts: Whether Ctrl-C is for this process, which takes its owner's place.
    """
    handler = "default_int_handler" if hears_interrupts else "SIG_IGN"
    if version >= _SAFE_PATH:
        return [sys.executable, "-P", "-c", _BOOTSTRAP.format("", handler), module, *arguments]
    without = _BOOTSTRAP.format("sys.path[0], ", handler)
    return [sys.executable, "-c", without, module, *arguments]


def ended(process: subprocess.Popen[Any], seconds: float) -> int:
    """Return the exit code of a process that was told to end.

    Args:
        process: The same.
        seconds: After which it is killed, if it has not [s].
    """
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def end_with_parent() -> None:
    """Have this process ended by SIGTERM when its parent dies, by SIGKILL too.

    As ``preexec_fn`` of a child, in a program whose main thread starts it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def name_process(name: str) -> None:
    """Set the name of this process in the kernel; call from its main thread."""
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def read_line() -> bytes:
    """Read one line of standard input without buffering what follows it."""
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:
        return unbuffered.readline()


def read_data() -> Any:
    """Return the data that the owner sends as one line of JSON.

    Raises:
        SystemExit: If the owner has ended before it sent the line.
    """
    line = read_line()
    if not line.endswith(b"\n"):
        raise SystemExit(1)
    return json.loads(line)


def lines() -> Iterator[bytes]:
    """Yield the lines of standard input as they arrive, without ``sys.stdin``.

    A thread that waits for ``sys.stdin`` holds its lock, and Python ends with a fatal error if the
    lock is held then.
    """
    heard = b""
    while data := os.read(0, 65536):
        *whole, heard = (heard + data).split(b"\n")
        yield from whole
    if heard:
        yield heard


def end_of_input() -> threading.Event:
    """Return what will be set when standard input ends: the owner has closed it, or is gone.

    A thread of its own reads from now on, and what comes is dropped.
    """
    ended = threading.Event()

    def wait() -> None:
        while os.read(0, 4096):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    return ended


def leave(code: int) -> NoReturn:
    """End this process though threads of others, as windows and OpenGL have them, go on."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


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
