# SPDX-License-Identifier: Apache-2.0
"""Which of the viewers of a panel may ask things of the cell."""

from __future__ import annotations

import threading


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
