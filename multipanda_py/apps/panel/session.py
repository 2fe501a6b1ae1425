# SPDX-License-Identifier: Apache-2.0
"""What the parts of a panel share: the page, the cell, who may ask, what was said."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias

from multipanda_py.apps.panel.access import value_of
from multipanda_py.apps.panel.cell_protocol import Answer, Served
from multipanda_py.cell.switch_planning import SwitchResult
from multipanda_py.exceptions import MultipandaError

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


class Command:
    """One viewer at a time, who has said so; at first nobody.

    Attributes:
        holder: Number of the viewer in command, or None.

    Thread: any.
    """

    def __init__(self) -> None:
        self.holder: int | None = None
        self._lock = threading.Lock()

    def take(self, viewer: int) -> int | None:
        """Give the command to a viewer; return who had it."""
        with self._lock:
            before, self.holder = self.holder, viewer
        return before

    def release(self, viewer: int | None = None) -> bool:
        """Take the command from a viewer, or from whoever has it; return whether it had it."""
        with self._lock:
            if self.holder is None or viewer not in (None, self.holder):
                return False
            self.holder = None
            return True

    def refusal(self, viewer: int | None) -> str:
        """Say why a viewer may not ask for anything but a stop; empty if it may."""
        holder = self.holder
        if holder is not None and holder == viewer:
            return ""
        who = "nobody is" if holder is None else f"viewer {holder} is"
        return f"viewer {viewer} is not in command ({who}): press Take command first"


REMEMBERED = 8
"""Lines that the page shows of what happened."""
STOOD_STILL = 1.0
"""Time without work after which what pages ask for is of the past [s]."""
DEAF = 0.5
"""How long after that nothing is heard: what waited on the way is read in a moment [s]."""


def viewer_named(viewer: int) -> str:
    """Return the name of a viewer in the reports of the loop."""
    return f"viewer {viewer} of the panel"


class Desk:
    """Where wishes of viewers come in, and answers are noted.

    Args:
        server: A ``viser.ViserServer``.
        cell: What is shown and moved.
        now: Returns the time that ages are measured by [s].

    Attributes:
        now: Likewise.
        server: The page.
        cell: Likewise.
        inbox: What viewers ask for.
        command: Which of them may.
        notes: What was said last, newest first.

    Thread: :meth:`ask`, :meth:`on_use` and :meth:`stop` any, the others the panel's.
    """

    def __init__(self, server: Any, cell: Served, now: Callable[[], float]) -> None:
        self.server, self.cell, self.now = server, cell, now
        self.inbox, self.command = Inbox(), Command()
        self.notes: tuple[str, ...] = ()
        self._noting = threading.Lock()
        self._waiting: list[Answer] = []
        self._stopping: deque[tuple[Answer, str, str]] = deque()  # with what is said of each
        self._stops = 0
        self._worked, self._deaf_until = math.inf, -math.inf

    def note(self, text: str) -> None:
        """Have the page say something; what was said lately comes to the top."""
        with self._noting:
            others = (one for one in self.notes if one != text)
            self.notes = (text, *others)[:REMEMBERED]

    def ask(self, kind: Hashable, viewer: int, act: Act) -> bool:
        """Take a wish of a viewer, or note that it is not in command; return whether taken."""
        if refusal := self._refusal(viewer):
            self.note(refusal)
            return False
        self.inbox.post(kind, viewer, act)
        return True

    def _refusal(self, viewer: int) -> str:
        return self.command.refusal(viewer) or self.stale_reason()

    def on_use(self, handle: Any, use: Callable[[int, Any], None]) -> None:
        """Have something done when a button is pressed, or an input changed.

        Args:
            handle: The element of the page.
            use: Takes the viewer's number and the new value; has to return at once.
        """

        async def used(event: Any) -> None:  # in viser's own thread: a pool would lose the order
            if event.client_id is not None:  # else the panel itself shows what has changed
                use(event.client_id, value_of(event.target))

        (handle.on_click if hasattr(handle, "on_click") else handle.on_update)(used)

    def stop(self, viewer: int) -> None:
        """Have every arm brake and hold, whoever asks; nothing that was asked before is done.

        That they are stopped is said when there is an answer, not before.
        """
        self.inbox.clear()
        self.command.release()
        self.note(asked := f"viewer {viewer} has pressed STOP; no answer yet")
        self._stops += 1
        pending = self.cell.ask_hold(by=viewer_named(viewer))
        # It is handed over now, by viser's thread; the panel's waits for the answer.
        if self.try_to(pending.look):
            self._stopping.append((pending, asked, f"stopped by viewer {viewer}"))
            self.inbox.post("stop", None, lambda: None)  # so that it looks
        else:
            self._unsay(asked)

    def work(self) -> None:
        """Do what was asked for, and look at what was not answered yet."""
        now = self.now()
        if now > self._worked + STOOD_STILL:
            self._deaf_until = now + DEAF
            self.inbox.forget_wishes()
            self.note(f"the panel stood still for {now - self._worked:.1f} s")
        self._worked = now
        for viewer, act in self.inbox.take():
            if viewer is None or not (refusal := self._refusal(viewer)):
                stops = self._stops
                self.try_to(act)
                if self._stops != stops:  # what was done may have come after it
                    self._waiting.append(self.cell.ask_hold(by="a stop that came first"))
            else:
                self.note(refusal)  # somebody else has taken the command meanwhile
        for _ in range(len(self._stopping)):
            self._look_at_stop(*self._stopping.popleft())
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            self.try_to(lambda answer=answer: self._look(answer))  # type: ignore[misc]

    def try_to(self, act: Act) -> bool:
        """Do something that may be refused; note why. Return whether it was done.

        An :class:`.Answer` that it returns is looked at in :meth:`work`.
        """
        try:
            answer = act()
        except MultipandaError as error:
            self.note(f"refused: {error}")
            return False
        except Exception as error:  # a page may send anything, and the others' is to go on
            self.note(f"refused: {type(error).__name__}: {error}")
            return False
        if isinstance(answer, Answer):
            self._waiting.append(answer)
        return True

    def _look_at_stop(self, answer: Answer, asked: str, stopped: str) -> None:
        found: list[object] = []
        if not self.try_to(lambda: found.append(answer.look())):
            self._unsay(asked)  # and why it was not done is said
        elif found[0] is None:
            self._stopping.append((answer, asked, stopped))
        else:
            self._unsay(asked)
            self.note(stopped)

    def _unsay(self, text: str) -> None:
        with self._noting:
            self.notes = tuple(one for one in self.notes if one != text)

    def _look(self, answer: Answer) -> None:
        result = answer.look()
        if result is None:
            self._waiting.append(answer)
        elif isinstance(result, SwitchResult) and result.activated:
            self.note(f"active: {', '.join(result.activated)}")

    def stale_reason(self) -> str:
        """Return the reason why requests of pages are stale, or an empty string."""
        if self.now() < self._deaf_until or self.now() > self._worked + STOOD_STILL:
            return "the panel stood still: ask again"
        return ""
