# SPDX-License-Identifier: Apache-2.0
"""When the next state of a robot is due: on a clock, or in lockstep with its client."""

from __future__ import annotations

PERIOD = 1_000_000
"""Of the clock [ns]."""
SHORTEST_GAP = 700_000
"""Between two states on the clock; a late one moves the clock, it is not made up for [ns]."""
FIRST_GAP, NEXT_GAP = 10_000_000, 100_000_000
"""In lockstep, between the states of a motion before its first command [ns].

The client uses up the first state to see that the motion has started, and answers the second
one. Only if it used up both does it need another. The robot holds still meanwhile, and the gaps
are long so that the state that is answered first is the newest one on a busy machine, too.
"""
PATIENCE = 700_000_000
"""In lockstep, silence after which the robot goes on until the client is back [ns].

A client waits a second for a state before it gives up.
"""
LOST_GAP = 20_000_000
"""In lockstep, between the states that then get no answer: slow, for busy machines [ns]."""
COMPANY = 100_000_000
"""Robots in lockstep together wait for a silent client of another one so long [ns].

Longer would look to their own clients as if the network were dead.
"""


class Clock:
    """Decide when a cycle is due. All times are of ``time.perf_counter_ns``."""

    def __init__(self, start: int, *, lockstep: bool, phase: float, ppm: float) -> None:
        """Make a clock.

        Args:
            start: Time of the first state [ns].
            lockstep: Whether a state follows as soon as the one before is answered.
            phase: Further delay of the first state [ms].
            ppm: How much too slow the clock is [millionth].
        """
        self.lockstep = lockstep
        self._period = round(PERIOD * (1.0 + ppm * 1e-6))
        self._next = self._sent = start + round(phase * 1e6)
        self._unanswered = 0  # states of a motion before its first command

    def wait(self, now: int, *, waiting: bool, answered: bool) -> int:
        """Return how long it is until a cycle is due [ns], 0 if it is due.

        Args:
            now: The time [ns].
            waiting: Whether a running motion wants a command in every cycle.
            answered: Whether the command is there, or is known to be lost.
        """
        if self.lockstep and waiting and answered:
            return 0
        due = self._next
        if self.lockstep and not waiting:  # the motion may have ended while it was waited for
            due = min(due, self._sent + self._period)
        return max(0, due - now)

    def sent(
        self, now: int, *, waiting: bool, started: bool, answered: bool
    ) -> tuple[int, bool] | None:
        """Set the time of the next cycle.

        Args:
            now: When the state was sent [ns].
            waiting: Whether a running motion wants a command in every cycle.
            started: Whether its first command has arrived.
            answered: Whether the cycle before had its command.

        Returns:
            How late this one was [ns] and whether the clock was moved, if it was on the clock.
        """
        self._sent = now
        if self.lockstep:
            self._unanswered = self._unanswered + 1 if waiting and not started else 0
            if not waiting:
                gap = self._period
            elif not started:
                gap = FIRST_GAP if self._unanswered == 1 else NEXT_GAP
            else:
                gap = PATIENCE if answered else LOST_GAP
            self._next = now + gap
            return None
        late = now - self._next
        self._next += self._period
        shifted = self._next < now + SHORTEST_GAP
        if shifted:
            self._next = now + SHORTEST_GAP
        return late, shifted
