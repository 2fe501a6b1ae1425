# SPDX-License-Identifier: Apache-2.0
"""Session of a panel: queue of requests, the viewer in command, and messages on the page."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, TypeAlias

from multipanda_py.apps.panel.access import value_of
from multipanda_py.apps.panel.cell_protocol import CellProtocol, PendingResponse
from multipanda_py.cell.switch_planning import SwitchResult
from multipanda_py.exceptions import MultipandaError

Act: TypeAlias = Callable[[], object]


class ViewerRequest(NamedTuple):
    """Request of a viewer.

    Attributes:
        viewer: Number of the viewer; None for a request of the panel itself.
        act: Function that performs the request.
    """

    viewer: int | None
    act: Act


class RequestQueue:
    """Queue that keeps only the newest request of each kind.

    Attributes:
        requests: Newest request of each kind, in order of arrival.

    Thread: any; :meth:`wait` and :meth:`pop_all` in one thread.
    """

    def __init__(self) -> None:
        self.requests: dict[Hashable, ViewerRequest] = {}
        self._condition = threading.Condition()

    def post(self, kind: Hashable, viewer: int | None, act: Act) -> None:
        """Add a request and drop the previous one of its kind."""
        with self._condition:
            self.requests.pop(kind, None)  # The new entry then comes last.
            self.requests[kind] = ViewerRequest(viewer, act)
            self._condition.notify()

    def pop_all(self) -> list[ViewerRequest]:
        """Return all requests in order of arrival and empty the queue."""
        with self._condition:
            requests, self.requests = list(self.requests.values()), {}
        return requests

    def clear(self) -> None:
        """Drop all requests."""
        self.pop_all()

    def drop_viewer_requests(self) -> None:
        """Drop the requests of viewers; requests of the panel itself stay."""
        with self._condition:
            own = {
                kind: request for kind, request in self.requests.items() if request.viewer is None
            }
            self.requests = own

    def wait(self, timeout: float) -> None:
        """Wait until there is a request, for up to ``timeout`` [s]."""
        with self._condition:
            if not self.requests:
                self._condition.wait(timeout)


class Command:
    """Right to command the cell, which one viewer at a time has.

    Attributes:
        holder: Number of the viewer in command; None without one.

    Thread: any.
    """

    def __init__(self) -> None:
        self.holder: int | None = None
        self._lock = threading.Lock()

    def acquire(self, viewer: int) -> int | None:
        """Give the command to a viewer; return the viewer who had it before, or None."""
        with self._lock:
            before, self.holder = self.holder, viewer
        return before

    def release(self, viewer: int | None = None) -> bool:
        """Take the command from a viewer; return True if this viewer had it.

        Args:
            viewer: Number of the viewer; None for the one in command.
        """
        with self._lock:
            if self.holder is None or viewer not in (None, self.holder):
                return False
            self.holder = None
            return True

    def refusal(self, viewer: int | None) -> str:
        """Return the reason to reject a request of a viewer; empty if the viewer is in command."""
        holder = self.holder
        if holder is not None and holder == viewer:
            return ""
        name = "no viewer is" if holder is None else f"viewer {holder} is"
        return f"viewer {viewer} is not in command ({name}): press Take command first"


MAX_NOTES = 8
"""Number of notes that the page shows."""
STALL_TIME = 1.0
"""Time without a call of :meth:`Session.work` after which requests of pages are stale [s]."""
REJECT_TIME = 0.5
"""Time after a pause of ``STALL_TIME`` during which requests are rejected as stale [s]."""


def viewer_named(viewer: int) -> str:
    """Return the name of a viewer for events of the cell."""
    return f"viewer {viewer} of the panel"


class Session:
    """Session of a panel, which processes requests of viewers and shows their results.

    Attributes:
        now: Function that returns the time [s].
        server: Server of the page, a ``viser.ViserServer``.
        cell: Cell that is shown and moved.
        queue: Queue of requests.
        command: Right of one viewer to move the cell.
        notes: Latest notes of the page, newest first.

    Thread: :meth:`ask`, :meth:`on_use` and :meth:`stop` any, the others the panel's.
    """

    def __init__(self, server: Any, cell: CellProtocol, now: Callable[[], float]) -> None:
        self.server, self.cell, self.now = server, cell, now
        self.queue, self.command = RequestQueue(), Command()
        self.notes: tuple[str, ...] = ()
        self._noting = threading.Lock()
        self._waiting: list[PendingResponse] = []
        self._stopping: deque[tuple[PendingResponse, str, str]] = (
            deque()
        )  # Response, note on the request and note on the success of each stop.
        self._stops = 0
        self._worked, self._reject_until = math.inf, -math.inf

    def note(self, text: str) -> None:
        """Show a note at the top of the page."""
        with self._noting:
            others = (one for one in self.notes if one != text)
            self.notes = (text, *others)[:MAX_NOTES]

    def ask(self, kind: Hashable, viewer: int, act: Act) -> bool:
        """Queue a request of a viewer, or show why it is rejected; return True if queued.

        Args:
            kind: Kind of the request. A new request replaces a queued one of its kind.
            viewer: Number of the viewer.
            act: Function that performs the request.
        """
        if refusal := self._refusal(viewer):
            self.note(refusal)
            return False
        self.queue.post(kind, viewer, act)
        return True

    def _refusal(self, viewer: int) -> str:
        return self.command.refusal(viewer) or self.stale_reason()

    def on_use(self, handle: Any, use: Callable[[int, Any], None]) -> None:
        """Set the callback of a button press or an input change.

        Args:
            handle: Button or input element of the page.
            use: Callback with the viewer's number and the new value; it must not wait.
        """

        # viser runs coroutines in order in its own thread, but plain functions in a thread pool.
        async def used(event: Any) -> None:
            if event.client_id is not None:  # None if the panel itself has set the value.
                use(event.client_id, value_of(event.target))

        (handle.on_click if hasattr(handle, "on_click") else handle.on_update)(used)

    def stop(self, viewer: int) -> None:
        """Let all arms brake and hold, and drop all earlier requests; any viewer may do so."""
        self.queue.clear()
        self.command.release()
        self.note(request_note := f"viewer {viewer} has pressed STOP; no confirmation yet")
        self._stops += 1
        pending = self.cell.request_hold(by=viewer_named(viewer))
        # This thread, which is viser's, sends the request. The panel's thread checks its result.
        if self.try_to(pending.poll):
            self._stopping.append((pending, request_note, f"stopped by viewer {viewer}"))
            # An empty request wakes the panel's thread.
            self.queue.post("stop", None, lambda: None)
        else:
            self._remove_note(request_note)

    def work(self) -> None:
        """Perform the queued requests of viewers, and check the results of earlier ones."""
        now = self.now()
        if now > self._worked + STALL_TIME:
            self._reject_until = now + REJECT_TIME
            self.queue.drop_viewer_requests()
            self.note(f"the panel was blocked for {now - self._worked:.1f} s")
        self._worked = now
        for viewer, act in self.queue.pop_all():
            if viewer is None or not (refusal := self._refusal(viewer)):
                stops = self._stops
                self.try_to(act)
                # If a viewer has pressed STOP during this request, the request may have started a
                # motion after the stop. The arms must hold again.
                if self._stops != stops:
                    self._waiting.append(self.cell.request_hold(by="an earlier stop"))
            else:
                self.note(refusal)
        for _ in range(len(self._stopping)):
            self._check_stop(*self._stopping.popleft())
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            self.try_to(lambda answer=answer: self._poll(answer))  # type: ignore[misc]

    def try_to(self, act: Act) -> bool:
        """Perform a request, or show why it was rejected; return True if it was performed.

        :meth:`work` polls a returned :class:`.PendingResponse`.
        """
        try:
            answer = act()
        except MultipandaError as error:
            self.note(f"rejected: {error}")
            return False
        except Exception as error:
            # An invalid message of one page must not stop the panel for others.
            self.note(f"rejected: {type(error).__name__}: {error}")
            return False
        if isinstance(answer, PendingResponse):
            self._waiting.append(answer)
        return True

    def _check_stop(self, answer: PendingResponse, request_note: str, stopped: str) -> None:
        results: list[object] = []
        if not self.try_to(lambda: results.append(answer.poll())):
            self._remove_note(request_note)  # try_to() shows why the stop failed.
        elif results[0] is None:
            self._stopping.append((answer, request_note, stopped))
        else:
            self._remove_note(request_note)
            self.note(stopped)

    def _remove_note(self, text: str) -> None:
        with self._noting:
            self.notes = tuple(one for one in self.notes if one != text)

    def _poll(self, answer: PendingResponse) -> None:
        result = answer.poll()
        if result is None:
            self._waiting.append(answer)
        elif isinstance(result, SwitchResult) and result.activated:
            self.note(f"active: {', '.join(result.activated)}")

    def stale_reason(self) -> str:
        """Return the reason why requests of pages may be out of date; empty otherwise.

        They are out of date while the panel is blocked, and for a short time afterwards.
        """
        if self.now() < self._reject_until or self.now() > self._worked + STALL_TIME:
            return "the panel was blocked: repeat the request"
        return ""
