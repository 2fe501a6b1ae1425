# SPDX-License-Identifier: Apache-2.0
"""A policy in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from multipanda_py.exceptions import PolicyFailed
from multipanda_py.policies.inference import (
    Inference,
    Policy,
    Raised,
    in_a_line,
    said,
    unless_raised,
)


class ProcessInference(Inference):
    """Ask a policy in a process: its load, and what kills it, are not the environment's.

    Args:
        make: Function of a module that returns the policy; called in that process, which loads
            what the policy needs.
        timeout: For that [s].

    Raises:
        PolicyFailed: If the policy cannot be made, or not in time.
    """

    def __init__(self, make: Callable[[], Policy], timeout: float = 60.0) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make), daemon=True)
        self._process.start()
        theirs.close()
        self._number = 0
        self._is_asked = False
        self._waiting: tuple[int, dict[str, Any]] | None = None
        try:
            if not self._pipe.poll(timeout):
                raise PolicyFailed(f"policy: not made after {timeout:g} s")
            unless_raised(self._received()[1])
        except PolicyFailed:
            self.close()
            raise

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Send the observation to the process, once that has answered all else.

        A pipe takes large observations only while they are read, so one is sent to a process
        that reads, and not to one that stalls.
        """
        self._number += 1
        self._waiting = (self._number, observation)
        if not self._is_asked:
            self._send()

    def answer(self, now: float) -> Any:
        """Return the answer to the newest question, if it is there."""
        while self._pipe.poll():
            number, answer = self._received()
            self._is_asked = False
            if number == self._number:
                return unless_raised(answer)
            self._send()
        return None

    def forget(self) -> None:
        """Have the answer, when it comes, be that of an old question."""
        self._number += 1
        self._waiting = None

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _send(self) -> None:
        if self._waiting is None:
            return
        try:
            self._pipe.send(self._waiting)
        except OSError as error:
            raise PolicyFailed(self._end()) from error
        self._waiting, self._is_asked = None, True

    def _received(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError) as error:
            raise PolicyFailed(self._end()) from error
        except Exception as error:  # of a kind that this process does not know
            raise PolicyFailed(f"policy: answer not read, {in_a_line(error)}") from error

    def _end(self) -> str:
        self._process.join(0.2)  # or its exit code is not known yet
        code = self._process.exitcode
        return "policy: its process has ended" + (f", exit code {code}" if code else "")


def _serve(pipe: Connection, make: Callable[[], Policy]) -> None:
    """Answer until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends this, after the arms hold
    try:
        policy = make()
    except Exception as error:  # told to whoever waits
        pipe.send((0, Raised(f"policy: not made, {in_a_line(error)}")))
        return
    pipe.send((0, "made"))
    while True:
        try:
            number, observation = pipe.recv()
        except EOFError:
            return
        answer = said(policy, observation)
        try:
            pipe.send((number, answer))
        except OSError:
            return
        except Exception as error:  # what cannot be pickled: nothing of it was sent
            pipe.send((number, Raised(f"policy: answer not sent, {in_a_line(error)}")))
