# SPDX-License-Identifier: Apache-2.0
"""A request that takes the answer of another one first."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from multipanda_py.exceptions import MultipandaError, TopicLost

Answer = TypeVar("Answer")


class Call(Generic[Answer]):
    """A request to a service, from its sending to its answer.

    Args:
        client: Of the service.
        request: What is asked.
        read: Makes of the response what :meth:`look` returns, which is not None; may refuse.
        patience: How long the answer may take [s].
        again: After so long without an answer it is sent again [s]; 0 for never.
        most: How often.

    Thread: any.
    """

    def __init__(
        self,
        client: Any,
        request: Any,
        read: Callable[[Any], Answer],
        patience: float = 10.0,
        again: float = 0.0,
        most: float = math.inf,
    ) -> None:
        self._client, self._request, self._read = client, request, read
        self._again, self._left, self._patience = again, most if again else 0, patience
        self._due = time.monotonic() + again
        self._deadline = time.monotonic() + patience
        self._futures = [client.call_async(request)]

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, or it is too late for one."""
        return time.monotonic() > self._deadline or any(one.done() for one in self._futures)

    def when_done(self, act: Callable[[], object]) -> None:
        """Have something done by the link's thread when the answer is there."""
        self._futures[0].add_done_callback(lambda _: act())

    def look(self) -> Answer | None:
        """Return what the answer says, or None while there is none.

        Raises:
            TopicLost: If it is too late for one; else what the reading raises.
        """
        answer = next((one for one in list(self._futures) if one.done()), None)
        if answer is not None:
            return self._read(answer.result())
        if time.monotonic() > self._deadline:
            raise TopicLost(
                f"service {self._client.srv_name}: no answer within {self._patience:g} s; it may "
                "still be done"
            )
        return None

    def repeat_if_due(self) -> None:
        """Send it again if that is wanted and it is time. Thread: that which serves."""
        if self._left and time.monotonic() > self._due and not self.is_done:
            self._due += self._again
            self._left -= 1
            self._futures.append(self._client.call_async(self._request))

    def forget(self) -> None:
        """Wait for no further answer."""
        for future in self._futures:
            self._client.remove_pending_request(future)


class Awaited(Protocol):
    """What was asked for and is not answered yet: see :class:`.Call`."""

    def look(self) -> object | None:
        """Return the answer, or None while there is none; raises why there will be none."""


class FollowUp:
    """Ask for something as soon as something else is answered.

    Args:
        first: Is answered first.
        go_on: Takes what it says, and asks for the rest; by the link's thread.

    Thread: any.
    """

    def __init__(self, first: Call[Any], go_on: Callable[[Any], Awaited]) -> None:
        self._first, self._go_on = first, go_on
        self._second: Awaited | None = None
        self._going_on = threading.Lock()
        first.when_done(self._take)

    def look(self) -> object | None:
        """Return what is answered last, or None while there is nothing; raises as both do."""
        if self._second is None:
            if self._first.look() is not None:  # a repeated request has been answered
                self._take()
            return None
        return self._second.look()

    def _take(self) -> None:
        with self._going_on:
            if self._second is not None:
                return
            try:
                said = self._first.look()
            except MultipandaError:  # whoever looks is told
                return
            if said is not None:
                self._second = self._go_on(said)
