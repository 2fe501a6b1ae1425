# SPDX-License-Identifier: Apache-2.0
"""Responsiveness of a node: age of its newest callback and of its newest self-check answer."""

from __future__ import annotations

PATIENCE = 2.0
"""Maximum age of the newest callback and of the newest answer of a responsive node [s]."""
LOST = 5.0
"""Age of the newest answer at which a participant is recreated, while callbacks run [s]."""
FIRST = 20.0
"""Maximum time from a new participant to its first answer, which includes discovery [s]."""
MAX_STEP = 0.3
"""Maximum counted time between two updates; in a longer one the process was stopped [s]."""


class Responsiveness:
    """Age of the newest callback and of the newest answer.

    The age of the answer does not grow while no callback runs. It starts with the first answer of
    the first participant, as discovery may be disabled.

    Attributes:
        standing: Age of the newest callback [s].
        deaf: Age of the newest answer, without the time in which no callback ran [s].
        unheard: Time in which the first participant had no first answer, without those times [s].

    Thread: :meth:`answered` and :meth:`look` in one thread, all other methods in main.
    """

    def __init__(self) -> None:
        self.standing = self.deaf = self.unheard = 0.0
        self._looked = 0.0
        self._callbacks, self._callbacks_seen = 0, 0
        self._is_serving = False
        self._expects, self._has_answered = False, False

    @property
    def is_standing(self) -> bool:
        """Whether the newest callback is older than :data:`PATIENCE`."""
        return self.standing > PATIENCE

    @property
    def is_deaf(self) -> bool:
        """Whether the newest answer is older than :data:`PATIENCE`."""
        return self.deaf > PATIENCE

    @property
    def is_unheard(self) -> bool:
        """Whether the first participant has had no answer for :data:`FIRST`."""
        return self.unheard > FIRST

    @property
    def has_answered(self) -> bool:
        """Whether the present participant has answered."""
        return self._has_answered

    @property
    def is_lost(self) -> bool:
        """Whether the participant is to be recreated."""
        return self.deaf > (LOST if self._has_answered else FIRST)

    def served(self) -> None:
        """Count a callback of the executor."""
        self._callbacks += 1
        self._is_serving = True

    def pause(self) -> None:
        """Suspend both ages until the next callback."""
        self._is_serving = False

    def renew(self) -> None:
        """Treat a new participant as unresponsive until its first answer."""
        self._has_answered, self._expects = False, True
        self.deaf = PATIENCE + MAX_STEP

    def answered(self) -> None:
        """Reset the age of the answer."""
        self._has_answered = self._expects = True
        self.deaf = 0.0

    def look(self, now: float) -> None:
        """Update both ages.

        Args:
            now: Current time, CLOCK_MONOTONIC [s].
        """
        step, self._looked = min(now - self._looked, MAX_STEP), now
        if self._callbacks != self._callbacks_seen or not self._is_serving:
            self._callbacks_seen = self._callbacks
            self.standing = 0.0
        else:
            self.standing += step
        if not self._is_serving or self.standing:
            return
        if self._expects:
            self.deaf += step
        else:
            self.unheard += step
