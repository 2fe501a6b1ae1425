# SPDX-License-Identifier: Apache-2.0
"""Serve a policy from another environment, which needs Python and numpy, and no more of this.

    python serve.py MODULE:FUNCTION [ARGUMENT ...]

``FUNCTION(*arguments)`` returns the policy: it maps an observation, arrays by key, to actions,
(n, k). Over both pipes go messages, each its length (4 bytes, big-endian) and an ``.npz`` file
without pickles: it means the same to every version of Python and numpy. Answers have ``actions``
or ``error``, a sentence; the first one, before any question, has one of them as well.
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

ACTIONS, ERROR = "actions", "error"
LARGEST = 2**30
"""Of a message [bytes]; what is said to be longer is no message."""
_LENGTH = struct.Struct("!I")


def send(pipe: BinaryIO, arrays: Mapping[str, Any]) -> None:
    """Write a message.

    Raises:
        OSError: If nobody reads any more.
    """
    file = io.BytesIO()
    content_of: dict[str, Any] = {key: np.asarray(value) for key, value in arrays.items()}
    np.savez(file, **content_of)
    content = file.getvalue()
    pipe.write(_LENGTH.pack(len(content)) + content)
    pipe.flush()


def receive(pipe: BinaryIO) -> dict[str, Any]:
    """Read a message; waits for it.

    Raises:
        EOFError: If there is none any more, or its end is missing.
        ValueError: If it is no message.
    """
    (length,) = _LENGTH.unpack(_exactly(pipe, _LENGTH.size))
    if length > LARGEST:
        raise ValueError(f"got a message of {length} bytes, allowed {LARGEST}")
    with np.load(io.BytesIO(_exactly(pipe, length)), allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def _exactly(pipe: BinaryIO, count: int) -> bytes:
    content = pipe.read(count)
    if len(content) < count:
        raise EOFError("the other side has gone")
    return content


def _answer(ask: Callable[[], Any]) -> dict[str, Any]:
    try:
        actions = np.asarray(ask(), np.float64)
    except Exception as error:  # whatever it is, arms are to hold
        return {ERROR: f"{type(error).__name__}: {error}"}
    return {ACTIONS: actions}


def main() -> None:
    """Answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends this, after the arms hold
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is no answer
    made: list[Callable[[dict[str, Any]], Any]] = []

    def make() -> Any:
        module, _, name = sys.argv[1].partition(":")
        made.append(getattr(importlib.import_module(module), name)(*sys.argv[2:]))
        return []

    said = _answer(make)
    send(answers, said)
    while ERROR not in said or made:
        try:
            seen = receive(questions)
        except EOFError:
            return
        send(answers, _answer(lambda seen=seen: made[0](seen)))  # type: ignore[misc]


if __name__ == "__main__":
    main()
