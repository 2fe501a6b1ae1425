# SPDX-License-Identifier: Apache-2.0
"""Service calls with timeout and repetition, and chains of two calls."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from multipanda_py.exceptions import MultipandaError, TopicLost

Answer = TypeVar("Answer")


class Call(Generic[Answer]):
    """Request to a service, from its sending to its answer.

    Args:
        client: Client of the service.
        request: Request message.
        read: Function that converts the response to the result of :meth:`poll`, which is not None;
            may raise an error.
        patience: Timeout of the answer [s].
        again: Period of repeated requests [s]; 0 for no repetition.
        most: Maximum number of repetitions.

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
        self._again, self._left, self._timeout = again, most if again else 0, patience
        self._next_call_time = time.monotonic() + again
        self._deadline = time.monotonic() + patience
        self._futures = [client.call_async(request)]

    @property
    def is_done(self) -> bool:
        """True if there is an answer, or the timeout has passed."""
        return time.monotonic() > self._deadline or any(one.done() for one in self._futures)

    def add_done_callback(self, act: Callable[[], object]) -> None:
        """Execute a function in the link's thread when the answer arrives."""
        self._futures[0].add_done_callback(lambda _: act())

    def poll(self) -> Answer | None:
        """Return the result, or None while there is no answer.

        Raises:
            TopicLost: If the timeout has passed. Errors of ``read`` are raised, too.
        """
        answer = next((one for one in list(self._futures) if one.done()), None)
        if answer is not None:
            return self._read(answer.result())
        if time.monotonic() > self._deadline:
            raise TopicLost(
                f"service {self._client.srv_name}: no answer within {self._timeout:g} s; the "
                "request may still be executed"
            )
        return None

    def repeat_if_due(self) -> None:
        """Send the request again if it is due. Thread: the link's."""
        if self._left and time.monotonic() > self._next_call_time and not self.is_done:
            self._next_call_time += self._again
            self._left -= 1
            self._futures.append(self._client.call_async(self._request))

    def forget(self) -> None:
        """Discard further answers."""
        for future in self._futures:
            self._client.remove_pending_request(future)


class Pending(Protocol):
    """Request without an answer yet; see :class:`.Call`."""

    def poll(self) -> object | None:
        """Return the answer, or None while it is pending; raises the reason of a failure."""


class RequestChain:
    """Second request that depends on the answer to a first one.

    Args:
        first: First request.
        go_on: Function that creates the second request from the first answer; called in the link's
            thread.

    Thread: any.
    """

    def __init__(self, first: Call[Any], go_on: Callable[[Any], Pending]) -> None:
        self._first, self._go_on = first, go_on
        self._second: Pending | None = None
        self._going_on = threading.Lock()
        first.add_done_callback(self._take)

    def poll(self) -> object | None:
        """Return the second answer, or None while it is pending; raises the errors of both."""
        if self._second is None:
            # The answer belongs to a repeated request. Only the first request has a callback.
            if self._first.poll() is not None:
                self._take()
            return None
        return self._second.poll()

    def _take(self) -> None:
        with self._going_on:
            if self._second is not None:
                return
            try:
                response = self._first.poll()
            except MultipandaError:  # ``poll`` of this chain raises the same error.
                return
            if response is not None:
                self._second = self._go_on(response)
