# SPDX-License-Identifier: Apache-2.0
"""How this package starts Python processes of its own."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from typing import Any

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
