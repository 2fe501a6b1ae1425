# SPDX-License-Identifier: Apache-2.0
"""What laws, features and backends raise: whose it is, in words that cannot fail themselves."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from multipanda_py.exceptions import LoopError, MultipandaError
from multipanda_py.realtime.system.signals import Interrupted

_CALLED = ("multipanda_py.controllet", "multipanda_py.context", "multipanda_py.targets")
"""Contracts that refuse what their caller asks for: the fault is in its line."""


def pass_interrupt(error: BaseException) -> None:
    """Raise a Ctrl-C again where one can arrive: the main thread of a process that heeds it.

    The loop's own process ignores SIGINT, and other threads never get it, so that there a
    ``KeyboardInterrupt``, as ``SystemExit`` everywhere, is a fault of whoever raised it.

    Raises:
        KeyboardInterrupt: If ``error`` is the user's.

    Thread: any.
    """
    if isinstance(error, Interrupted):  # our own handler, which ignores further signals
        raise error
    if (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):
        raise error


def _refuses_for_others(trace: TracebackType) -> bool:
    """Return whether a line only says what the line that called it has done wrong."""
    module = str(trace.tb_frame.f_globals.get("__name__", ""))
    return module in _CALLED or module.split(".", 1)[0] == "numpy"


def error_text(error: BaseException) -> str:
    """Name an exception, what it says, and the line of the plug-in it came from. Thread: any."""
    where = ""
    found = trace = error.__traceback__
    while trace is not None:
        found = found if _refuses_for_others(trace) else trace
        trace = trace.tb_next
    if found is not None:
        file = found.tb_frame.f_code.co_filename.rsplit("/", 1)[-1]
        where = f" ({file}:{found.tb_lineno})"
    try:
        text = str(error)
    except BaseException as second:
        pass_interrupt(second)
        text = f"its text cannot be had, for {type(second).__name__}"
    return f"{type(error).__name__}: {text}{where}"


@contextmanager
def starting(who: str) -> Iterator[None]:
    """Say whose start failed; what the package refuses on purpose says so by itself.

    Args:
        who: The part that starts, for the beginning of the sentence.

    Raises:
        LoopError: Instead of what the part raised.

    Thread: any, before the loop runs.
    """
    try:
        yield
    except MultipandaError:
        raise
    except BaseException as error:
        pass_interrupt(error)
        raise LoopError(f"{who}: {error_text(error)}") from error
