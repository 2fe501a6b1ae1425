# SPDX-License-Identifier: Apache-2.0
"""Policy server for another Python environment, which needs only Python and numpy.

    python serve.py MODULE:FUNCTION [ARGUMENT ...]

``FUNCTION(*arguments)`` returns the policy, which maps an observation (arrays by key) to actions,
(n, k). Observations arrive on standard input, and answers are written to standard output. A
message consists of its length (4 bytes, big-endian) and an ``.npz`` file without pickles. An
answer contains ``actions``, or ``error`` with a message. A first answer, before all observations,
reports that the policy has been created.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

ACTIONS_KEY, ERROR_KEY = "actions", "error"
MAX_MESSAGE_SIZE = 2**30
"""Maximum size of a message [bytes]."""
_LENGTH = struct.Struct("!I")


def send(pipe: BinaryIO, arrays: Mapping[str, Any]) -> None:
    """Write a message to a pipe: the arrays by name.

    Raises:
        OSError: If the pipe is closed.
    """
    file = io.BytesIO()
    content_of: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
    np.savez(file, **content_of)
    content = file.getvalue()
    pipe.write(_LENGTH.pack(len(content)) + content)
    pipe.flush()


def receive(pipe: BinaryIO) -> dict[str, Any]:
    """Wait for a message in a pipe, and return its arrays by name.

    Raises:
        EOFError: If the pipe is closed or ends within a message.
        ValueError: If the message is invalid.
    """
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    if length > MAX_MESSAGE_SIZE:
        raise ValueError(f"got a message of {length} bytes, allowed up to {MAX_MESSAGE_SIZE}")
    with np.load(io.BytesIO(_exactly(pipe, length)), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    content = pipe.read(count)
    if len(content) < count:
        raise EOFError("the pipe was closed")

    return content


def _answer(ask: Callable[[], Any]) -> dict[str, Any]:
    try:
        actions = np.asarray(ask(), np.float64)
    except Exception as error:  # The client receives every error, and lets the arms hold.
        return {ERROR_KEY: f"{type(error).__name__}: {error}"}
    return {ACTIONS_KEY: actions}


def main() -> None:
    """Create the policy, and answer requests until standard input is closed."""
    # Ctrl-C also reaches this process. It ignores the signal, because the client ends it after
    # the arms hold.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Printed text of libraries goes to standard error, not between the answers.

    made: list[Callable[[dict[str, Any]], Any]] = []

    def make() -> Any:
        module, _, name = sys.argv[1].partition(":")
        made.append(getattr(importlib.import_module(module), name)(*sys.argv[2:]))
        return []

    response = _answer(make)
    send(answers, response)
    while ERROR_KEY not in response or made:
        try:
            obs = receive(questions)
        except EOFError:
            return
        send(answers, _answer(lambda obs=obs: made[0](obs)))  # type: ignore[misc]


if __name__ == "__main__":
    main()
