# SPDX-License-Identifier: Apache-2.0
"""A request that takes the answer of another one first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from multipanda_py.exceptions import MultipandaError
from multipanda_py.ros.service_call import Call


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
