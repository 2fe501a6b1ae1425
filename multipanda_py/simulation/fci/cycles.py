# SPDX-License-Identifier: Apache-2.0
"""Accounting of control cycles: which were answered in time, and how fast."""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


Vector = NDArray[np.float64]

LONGEST_GAP = 20
"""Lost commands in a row that end a motion (FCI documentation)."""
WINDOW = 100
"""Cycles over which the success rate is taken (FCI documentation)."""
_PERCENTILES = (50, 95, 99, 100)


class Cycles:
    """Count cycles of motions.

    The first cycle that counts is the one whose state got the first command.

    Attributes:
        run: Commands lost in a row, up to now.
        in_motion: Cycles of the running motion, or of the last one.
    """

    def __init__(self) -> None:
        self.run = self.in_motion = 0
        self._window: deque[bool] = deque(maxlen=WINDOW)
        self._log: deque[dict[str, Any]] = deque(maxlen=WINDOW)
        self._sent = self._arrived = 0
        self.reset()

    def reset(self) -> None:
        """Forget what was counted, not the motion that is running."""
        self._active = self._lost = self._longest_run = self._stale = self._late_states = 0
        self._torque_rate = 0.0
        self._longest_repeat = 0.0
        self._fresh_at = 0.0
        self._latencies: deque[int] = deque(maxlen=100_000)
        self._lateness: deque[int] = deque(maxlen=100_000)

    def begin(self) -> None:
        """Start a motion."""
        self.run = self.in_motion = 0
        self._fresh_at = 0.0
        self._window.clear()

    @property
    def success_rate(self) -> float:
        """Share of the last cycles whose command arrived."""
        return sum(self._window) / len(self._window) if self._window else 0.0

    def answered(self, message_id: int, tau: Vector, change: Vector) -> None:
        """Count a cycle whose command arrived.

        Args:
            message_id: Of the state that the command answers.
            tau: Commanded torque, (7,) [Nm].
            change: From the torque before, (7,) [Nm].
        """
        self._active += 1
        self.in_motion += 1
        self.run = 0
        self._window.append(True)
        now = time.perf_counter()
        if self._fresh_at:
            self._longest_repeat = max(self._longest_repeat, now - self._fresh_at)
        self._fresh_at = now
        self._torque_rate = max(self._torque_rate, float(np.abs(change).max()) * 1e3)
        self._log.append({"message_id": message_id, "tau": tau.tolist(),
                          "sent_ns": self._sent, "arrived_ns": self._arrived})  # fmt: skip

    def missed(self) -> bool:
        """Count a cycle without a command; return whether it was one too many."""
        self._active += 1
        self.in_motion += 1
        self._lost += 1
        self.run += 1
        self._longest_run = max(self._longest_run, self.run)
        self._window.append(False)
        return self.run >= LONGEST_GAP

    def stale(self) -> None:
        """Count a command that answers an older state."""
        self._stale += 1

    def timed(self, sent: int, arrived: int) -> None:
        """Note when a state was sent and when its command arrived, CLOCK_MONOTONIC [ns]."""
        self._sent, self._arrived = sent, arrived
        self._latencies.append(arrived - sent)

    def lateness(self, nanoseconds: int, shifted: bool) -> None:
        """Note how late a state of the clock was sent, and whether that moved the clock."""
        self._lateness.append(nanoseconds)
        self._late_states += shifted

    def keep(self, commands: int) -> None:
        """Begin a new log, of so many commands."""
        self._log = deque(maxlen=commands)

    def log(self, skip: int = 0, most: int | None = None) -> list[dict[str, Any]]:
        """Return the newest commands, oldest first, without the first ones."""
        return list(islice(self._log, skip, None if most is None else skip + most))

    def summary(self) -> dict[str, Any]:
        """Return everything that was counted."""
        return {
            "active_cycles": self._active,
            "lost": self._lost,
            "longest_run": self._longest_run,
            "longest_repeat_ms": round(self._longest_repeat * 1e3, 3),
            "stale": self._stale,
            "success_rate": self.success_rate,
            "torque_rate_max": self._torque_rate,
            "latency_us": _percentiles(self._latencies),
            "lateness_us": _percentiles(self._lateness),
            "late_states": self._late_states,
        }


def _percentiles(nanoseconds: deque[int]) -> dict[str, float]:
    """Return percentiles [us]; 100 is the maximum."""
    if not nanoseconds:
        return {}
    values = np.percentile(np.array(nanoseconds) / 1e3, _PERCENTILES)
    return {str(p): round(float(value), 1) for p, value in zip(_PERCENTILES, values)}
