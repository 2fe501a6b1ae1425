# SPDX-License-Identifier: Apache-2.0
"""Responsiveness of a node: age of its newest callback, and of its newest answer to itself."""

from __future__ import annotations

PATIENCE = 2.0
"""Maximum age of the newest callback, or answer, of a responsive node [s]."""
LOST = 5.0
"""Age of the newest answer from which on a participant is given up, while callbacks run [s]."""
FIRST = 20.0
"""Maximum time of a new participant until its first answer: others have to discover it [s]."""
MAX_STEP = 0.3
"""Maximum time that counts between two looks; in a longer one the process was stopped [s]."""


class Responsiveness:
    """Age of the newest callback and of the newest answer.

    No answer is expected while callbacks stand, nor from the first participant until it has
    answered once: discovery may be off.

    Attributes:
        standing: Age of the newest callback [s].
        deaf: Age of the newest answer, without the time in which callbacks stood [s].

    Thread: :meth:`answered` and :meth:`look` one; all others main.
    """

    def __init__(self) -> None:
        self.standing = self.deaf = 0.0
        self._looked = 0.0
        self._callbacks, self._callbacks_seen = 0, 0
        self._is_serving = False
        self._expects, self._has_answered = False, False

    @property
    def is_standing(self) -> bool:
        """Whether callbacks have not returned for too long."""
        return self.standing > PATIENCE

    @property
    def is_deaf(self) -> bool:
        """Whether the participant has not answered for too long."""
        return self.deaf > PATIENCE

    @property
    def is_lost(self) -> bool:
        """Whether the participant is to be recreated."""
        return self.deaf > (LOST if self._has_answered else FIRST)

    def served(self) -> None:
        """Count a callback of the executor."""
        self._callbacks += 1
        self._is_serving = True

    def pause(self) -> None:
        """Expect no callback until the next one."""
        self._is_serving = False

    def renew(self) -> None:
        """Count a new participant as deaf until its first answer."""
        self._has_answered, self._expects = False, True
        self.deaf = PATIENCE + MAX_STEP

    def answered(self) -> None:
        """Note an answer."""
        self._has_answered = self._expects = True
        self.deaf = 0.0

    def look(self, now: float) -> None:
        """Update both ages.

        Args:
            now: Time of the machine [s].
        """
        step, self._looked = min(now - self._looked, MAX_STEP), now
        if self._callbacks != self._callbacks_seen or not self._is_serving:
            self._callbacks_seen = self._callbacks
            self.standing = 0.0
        else:
            self.standing += step
        if self._expects and self._is_serving and not self.standing:
            self.deaf += step
