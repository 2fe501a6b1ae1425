# SPDX-License-Identifier: Apache-2.0
"""Attribute errors to controllets, features and backends, and format them safely."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from multipanda_py.exceptions import LoopError, MultipandaError
from multipanda_py.realtime.system.signals import Interrupted

_CALLED = ("multipanda_py.controllet", "multipanda_py.context", "multipanda_py.targets")
"""Modules that reject arguments of their caller; the reported line is then that of the caller."""


def pass_interrupt(error: BaseException) -> None:
    """Raise an error again if it is a Ctrl-C of the user; otherwise return.

    Raises:
        KeyboardInterrupt: If ``error`` is a Ctrl-C of the user.

    Thread: any.
    """
    # The signal handler of this package raises this error and sets SIGINT to SIG_IGN, so that the
    # check below would not recognise the error.
    if isinstance(error, Interrupted):
        raise error
    # Only the main thread of a process that handles SIGINT can receive a Ctrl-C. In all other
    # cases, a plug-in has raised the ``KeyboardInterrupt``.
    if (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):
        raise error


def _only_checks_arguments(trace: TracebackType) -> bool:
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return module in _CALLED or module.split(".", 1)[0] == "numpy"


def error_text(error: BaseException) -> str:
    """Return type and text of an exception, with file and line of the code that caused it.

    Thread: any.
    """
    path = ""
    result = trace = error.__traceback__
    while trace is not None:
        result = result if _only_checks_arguments(trace) else trace
        trace = trace.tb_next
    if result is not None:
        file = result.tb_frame.f_code.co_filename.rsplit("/", 1)[-1]
        path = f" ({file}:{result.tb_lineno})"
    try:
        text = str(error)
    except BaseException as second:
        pass_interrupt(second)
        text = f"its text is not available: {type(second).__name__}"
    return f"{type(error).__name__}: {text}{path}"


@contextmanager
def starting(name: str) -> Iterator[None]:
    """Convert errors of a plug-in in this context to a :class:`.LoopError` with its name.

    A :class:`.MultipandaError` is not converted.

    Args:
        name: Name of the plug-in that starts, placed before the error text.

    Raises:
        LoopError: If the plug-in raises any other error.

    Thread: any, before the loop runs.
    """
    try:
        yield
    except MultipandaError:
        raise
    except BaseException as error:
        pass_interrupt(error)
        raise LoopError(f"{name}: {error_text(error)}") from error
