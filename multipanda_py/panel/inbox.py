# SPDX-License-Identifier: Apache-2.0
"""What pages ask for, until the panel's own thread does it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import NamedTuple, TypeAlias

Act: TypeAlias = Callable[[], object]


class Wish(NamedTuple):
    """One thing that a viewer has asked for.

    Attributes:
        viewer: Its number, or None where the panel itself asks.
        act: Does it.
    """

    viewer: int | None
    act: Act


class Inbox:
    """The newest request of every kind; an older one of the same kind is dropped.

    A page that floods the panel fills no queue, and one that stalls and then sends all at once
    moves nothing along a way that is long past.

    Attributes:
        requests: Newest request of each kind, in the order of their arrival.

    Thread: any; :meth:`wait` and :meth:`take` are for one.
    """

    def __init__(self) -> None:
        self.requests: dict[Hashable, Wish] = {}
        self._condition = threading.Condition()

    def post(self, kind: Hashable, viewer: int | None, act: Act) -> None:
        """Put a request in the place of the last one of its kind."""
        with self._condition:
            self.requests.pop(kind, None)  # it comes after what was asked since
            self.requests[kind] = Wish(viewer, act)
            self._condition.notify()

    def take(self) -> list[Wish]:
        """Return all requests in the order in which they came, and keep none."""
        with self._condition:
            requests, self.requests = list(self.requests.values()), {}
        return requests

    def clear(self) -> None:
        """Forget what was asked for."""
        self.take()

    def forget_wishes(self) -> None:
        """Forget what viewers have asked for; what the panel itself has to do stays."""
        with self._condition:
            own = {kind: wish for kind, wish in self.requests.items() if wish.viewer is None}
            self.requests = own

    def wait(self, timeout: float) -> None:
        """Return when there is a request, or after ``timeout`` [s]."""
        with self._condition:
            if not self.requests:
                self._condition.wait(timeout)
