# SPDX-License-Identifier: Apache-2.0
"""What the parts of a panel share: the page, the cell, who may ask, what was said."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Any

from multipanda_py.cell import Cell
from multipanda_py.cell.pending_switch import PendingSwitch
from multipanda_py.exceptions import MultipandaError
from multipanda_py.panel.command import Command
from multipanda_py.panel.inbox import Act, Inbox

REMEMBERED = 8
"""Lines that the page shows of what happened."""


class Desk:
    """Where wishes of viewers come in, and answers are noted.

    Args:
        server: A ``viser.ViserServer``.
        cell: A started cell.
        now: Returns the time that ages are measured by [s].

    Attributes:
        now: Likewise.
        server: The page.
        cell: The cell.
        inbox: What viewers ask for.
        command: Which of them may.
        notes: What was said last, newest first.

    Thread: :meth:`ask`, :meth:`on_use` and :meth:`stop` any, the others the panel's.
    """

    def __init__(self, server: Any, cell: Cell, now: Callable[[], float]) -> None:
        self.server, self.cell, self.now = server, cell, now
        self.inbox, self.command = Inbox(), Command()
        self.notes: deque[str] = deque(maxlen=REMEMBERED)
        self._switches: list[PendingSwitch] = []

    def note(self, text: str) -> None:
        """Have the page say something, once in a row."""
        if not self.notes or self.notes[0] != text:
            self.notes.appendleft(text)

    def ask(self, kind: Hashable, viewer: int, act: Act) -> bool:
        """Take a wish of a viewer, or note that it is not in command; return whether taken."""
        if refusal := self.command.refusal(viewer):
            self.note(refusal)
            return False
        self.inbox.post(kind, viewer, act)
        return True

    def on_use(self, handle: Any, use: Callable[[int, Any], None]) -> None:
        """Have something done when a button is pressed, or an input changed.

        Args:
            handle: The element of the page.
            use: Takes the viewer's number and the new value; has to return at once.
        """

        async def used(event: Any) -> None:  # in viser's own thread: a pool would lose the order
            use(event.client_id, event.target.value)

        (handle.on_click if hasattr(handle, "on_click") else handle.on_update)(used)

    def stop(self, viewer: int) -> None:
        """Have every arm brake and hold, whoever asks; nothing that was asked before is done."""
        self.inbox.clear()
        self.command.release()
        self.note(f"stopped by viewer {viewer}")
        pending = self.cell.ask_hold()
        # It is handed to the loop now, by viser's thread; the panel's waits for the answer.
        if self.try_to(pending.look):
            self.inbox.post("stop", None, lambda: self._switches.append(pending))

    def switch(self, **wanted: Any) -> None:
        """Ask for a switch, whose answer is looked at in :meth:`work`."""
        self._switches.append(self.cell.ask_switch(**wanted))

    def work(self) -> None:
        """Do what was asked for, and look at what was not answered yet."""
        for viewer, act in self.inbox.take():
            if viewer is None or not (refusal := self.command.refusal(viewer)):
                self.try_to(act)
            else:
                self.note(refusal)  # somebody else has taken the command meanwhile
        waiting, self._switches = self._switches, []
        for pending in waiting:
            self.try_to(lambda pending=pending: self._look(pending))  # type: ignore[misc]

    def try_to(self, act: Act) -> bool:
        """Do something that may be refused; note why. Return whether it was done."""
        try:
            act()
        except MultipandaError as error:
            self.note(f"refused: {error}")
            return False
        except Exception as error:  # a page may send anything, and the others' is to go on
            self.note(f"refused: {type(error).__name__}: {error}")
            return False
        return True

    def _look(self, pending: PendingSwitch) -> None:
        result = pending.look()
        if result is None:
            self._switches.append(pending)
        elif result.activated:
            self.note(f"active: {', '.join(result.activated)}")
