# SPDX-License-Identifier: Apache-2.0
"""A policy in a thread of its own."""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread
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


class ThreadInference(Inference):
    """Ask a policy in a thread; for one that releases the interpreter while it computes.

    One that does not, holds the environment's steps up: :class:`.ProcessInference` is for it.

    Args:
        policy: Called in that thread only.
    """

    def __init__(self, policy: Policy) -> None:
        self._questions: SimpleQueue[Any] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        self._number = 0
        # A daemon, as nobody can end a policy that stalls.
        self._thread = Thread(target=self._serve, args=(policy,), name="policy", daemon=True)
        self._thread.start()

    def _serve(self, policy: Policy) -> None:
        while (question := self._questions.get()) is not None:
            number, observation = question
            try:
                answer = said(policy, observation)
            except BaseException as error:  # as sys.exit: it would end the thread without a word
                answer = Raised(f"policy: raised {in_a_line(error)}")
            self._answers.put((number, answer))

    def ask(self, observation: dict[str, Any], now: float) -> None:
        """Hand the observation to the thread.

        Raises:
            PolicyFailed: If it was closed.
        """
        if not self._thread.is_alive():
            raise PolicyFailed("policy: its thread has ended")
        self._number += 1
        self._questions.put((self._number, observation))

    def answer(self, now: float) -> Any:
        """Return the answer to the newest question, if it is there."""
        while True:
            try:
                number, answer = self._answers.get_nowait()
            except Empty:
                return None
            if number == self._number:
                return unless_raised(answer)

    def forget(self) -> None:
        """Have the answer, when it comes, be that of an old question."""
        self._number += 1

    def close(self) -> None:
        """Let the thread end when its policy has answered."""
        self._questions.put(None)
        self._thread.join(1.0)
