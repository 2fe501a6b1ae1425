# SPDX-License-Identifier: Apache-2.0
"""Silence: of the process that owns the cell, and of those that stream targets."""

from __future__ import annotations

from functools import partial

from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import Mailbox, Word
from multipanda_py.loop.ownership import Ownership

START_PATIENCE = 20.0
"""How long an owner may be busy with its own start before it shows the first time that it is
alive [s]. Until then nobody can ask anything of its arms; one that dies is seen at once."""
_HEARTBEAT = int(Word.CLIENT_HEARTBEAT)  # asked for in every cycle


class Silence:
    """Hold when the owner has gone silent, or a stream of targets has paused.

    Args:
        ownership: Who owns which arm.
        mailbox: With the owner's heartbeat.
        timeout_ns: Silence of the owner after which all arms hold; 0 is never.

    Attributes:
        timeout_ns: Maximum age of the owner's heartbeat; 0 is any.

    Thread: control.
    """

    def __init__(self, ownership: Ownership, mailbox: Mailbox, timeout_ns: int) -> None:
        self._owners, self._words, self.timeout_ns = ownership, mailbox.words, timeout_ns
        self._is_silent, self._first_ns = False, 0
        self._start_ns = max(timeout_ns, round(START_PATIENCE * 1e9))

    def look(self, now_ns: int) -> None:
        """Look at both; a silence is reported once."""
        owners = self._owners
        if self.timeout_ns:
            self._first_ns = self._first_ns or now_ns
            beat = self._words[_HEARTBEAT]
            silence = now_ns - max(beat, self._first_ns)  # not before the loop ran itself
            is_silent = silence > (self.timeout_ns if beat else self._start_ns)
            if is_silent and not self._is_silent:
                text = f"the owning process has been silent for {silence / 1e9:.2f} s"
                owners.hold_all(Event.CLIENT_SILENT, f"{text}; all arms hold", now_ns)
            self._is_silent = is_silent
        for instance in owners.active:
            if instance.is_stale(now_ns):
                owners.attempt(instance, partial(owners.restart, instance, now_ns), now_ns)
                text = "targets have stopped; holding the measured state"
                owners.report(Event.TARGET_STALE, instance, text, now_ns)
