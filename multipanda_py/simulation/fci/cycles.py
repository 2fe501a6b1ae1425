# SPDX-License-Identifier: Apache-2.0
"""Clock of a simulated robot's control cycles, and statistics of lost commands and latencies."""

from __future__ import annotations

import time
from collections import deque
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

PERIOD = 1_000_000
"""Period of the clock [ns]."""
MIN_STATE_GAP = 700_000
"""Minimum time between two states without lockstep [ns]. After a late state, the next one is
postponed to keep it."""
FIRST_GAP, NEXT_GAP = 10_000_000, 100_000_000
"""Time between states of a motion before its first command, in lockstep [ns].

The first value is the time to the second state, the second value that to later ones. The client
uses the first state to detect the start of the motion and answers the second one. Only if it
consumed both, it needs another. The robot does not move in this time. The gaps are long so that
also on a busy machine the first answered state is the newest one.
"""
MAX_COMMAND_WAIT = 700_000_000
"""Time without a command after which the robot continues, in lockstep [ns].

A client waits one second for a state before it gives up.
"""
LOST_GAP = 20_000_000
"""Time to the next state after a missing command, in lockstep [ns]. It is longer than a period,
because the client may run on a busy machine."""
MAX_PARTNER_WAIT = 100_000_000
"""Maximum time that coupled robots in lockstep wait for the client of another robot [ns].

After a longer wait, their own clients would report a lost connection.
"""


class Clock:
    """Clock that decides when a simulated robot sends its next state.

    All times are those of ``time.perf_counter_ns``.
    """

    def __init__(self, start: int, *, lockstep: bool, phase: float, ppm: float) -> None:
        """Set the time of the first cycle.

        Args:
            start: Time of the first state [ns].
            lockstep: True to send a state as soon as the client has answered the previous one.
            phase: Additional delay of the first state [ms].
            ppm: Rate error of the clock, positive if it is too slow [parts per million].
        """
        self.lockstep = lockstep
        self._period = round(PERIOD * (1.0 + ppm * 1e-6))
        self._next = self._sent = start + round(phase * 1e6)
        self._unanswered = 0  # Number of states sent in a motion before its first command.

    def wait(self, now: int, *, waiting: bool, answered: bool) -> int:
        """Return the time until a cycle is due [ns]; 0 if it is due.

        Args:
            now: Current time [ns].
            waiting: True if a running motion needs a command in every cycle.
            answered: True if the command for the newest state has arrived, or an injected fault
                has dropped it.
        """
        if self.lockstep and waiting and answered:
            return 0
        deadline = self._next
        # In lockstep a motion waits for its command longer than a period. If the motion has ended
        # meanwhile, states are sent at the normal rate again.
        if self.lockstep and not waiting:
            deadline = min(deadline, self._sent + self._period)
        return max(0, deadline - now)

    def sent(
        self, now: int, *, waiting: bool, started: bool, answered: bool
    ) -> tuple[int, bool] | None:
        """Set the time of the next cycle after a state was sent.

        Args:
            now: Time at which the state was sent [ns].
            waiting: True if a running motion needs a command in every cycle.
            started: True if the first command of the motion has arrived.
            answered: True if the command for the previous state has arrived.

        Returns:
            Delay of this state [ns], and True if the next state is postponed to follow this one
            after :data:`MIN_STATE_GAP`. None in lockstep.
        """
        self._sent = now
        if self.lockstep:
            self._unanswered = self._unanswered + 1 if waiting and not started else 0
            if not waiting:
                gap = self._period
            elif not started:
                gap = FIRST_GAP if self._unanswered == 1 else NEXT_GAP
            else:
                gap = MAX_COMMAND_WAIT if answered else LOST_GAP
            self._next = now + gap
            return None
        late = now - self._next
        self._next += self._period
        shifted = self._next < now + MIN_STATE_GAP
        if shifted:
            self._next = now + MIN_STATE_GAP
        return late, shifted


Vector = NDArray[np.float64]

MAX_LOST_COMMANDS = 20
"""Number of consecutive lost commands that ends a motion (FCI documentation)."""
SUCCESS_RATE_CYCLES = 100
"""Number of cycles over which the success rate is computed (FCI documentation)."""
_PERCENTILES = (50, 95, 99, 100)  # Reported percentiles [%].


class CycleStatistics:
    """Counters of the cycles of motions, of lost commands and of latencies.

    Attributes:
        run: Number of lost commands since the last command that arrived.
        in_motion: Number of cycles of the running or last motion, from its first command on.
    """

    def __init__(self) -> None:
        self.run = self.in_motion = 0
        self._window: deque[bool] = deque(maxlen=SUCCESS_RATE_CYCLES)
        self._log: deque[dict[str, Any]] = deque(maxlen=SUCCESS_RATE_CYCLES)
        self._sent = self._arrived = 0
        self.reset()

    def reset(self) -> None:
        """Reset all counters except ``run`` and ``in_motion``."""
        self._active = self._lost = self._longest_run = self._stale = self._late_states = 0
        self._torque_rate = 0.0
        self._longest_repeat = 0.0
        self._fresh_at = 0.0
        self._latencies: deque[int] = deque(maxlen=100_000)
        self._lateness: deque[int] = deque(maxlen=100_000)

    def start_motion(self) -> None:
        """Reset the counters of a motion: lost commands in a row, cycles and success rate."""
        self.run = self.in_motion = 0
        self._fresh_at = 0.0
        self._window.clear()

    @property
    def success_rate(self) -> float:
        """Fraction of cycles whose command arrived, in the last :data:`SUCCESS_RATE_CYCLES`."""
        return sum(self._window) / len(self._window) if self._window else 0.0

    def answered(self, message_id: int, tau: Vector, change: Vector) -> None:
        """Count a cycle whose command arrived.

        Args:
            message_id: Number of the state that the command answers.
            tau: Commanded torque, (7,) [Nm].
            change: Commanded torque minus that of the previous command, (7,) [Nm].
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
        """Count a cycle without a command; return True at :data:`MAX_LOST_COMMANDS` in a row."""
        self._active += 1
        self.in_motion += 1
        self._lost += 1
        self.run += 1
        self._longest_run = max(self._longest_run, self.run)
        self._window.append(False)
        return self.run >= MAX_LOST_COMMANDS

    def stale(self) -> None:
        """Count a command that answers an older state, and was therefore ignored."""
        self._stale += 1

    def timed(self, sent: int, arrived: int) -> None:
        """Record the latency of a command, from sending the state to its arrival [ns]."""
        self._sent, self._arrived = sent, arrived
        self._latencies.append(arrived - sent)

    def lateness(self, nanoseconds: int, shifted: bool) -> None:
        """Count and record the delay of a state.

        Args:
            nanoseconds: Delay [ns].
            shifted: True if :class:`Clock` has postponed the next state because of this delay.
        """
        self._lateness.append(nanoseconds)
        self._late_states += shifted

    def keep(self, commands: int) -> None:
        """Clear the log of commands, and set its maximum number of entries."""
        self._log = deque(maxlen=commands)

    def log(self, skip: int = 0, max_commands: int | None = None) -> list[dict[str, Any]]:
        """Return logged commands, oldest first.

        Args:
            skip: Number of oldest commands to leave out.
            max_commands: Maximum number of returned commands; None: no maximum.
        """
        return list(islice(self._log, skip, None if max_commands is None else skip + max_commands))

    def summary(self) -> dict[str, Any]:
        """Return all counters, latencies and the success rate by name."""
        return {
            "active_cycles": self._active,
            "lost": self._lost,
            "longest_run": self._longest_run,
            "longest_repeat_ms": round(self._longest_repeat * 1e3, 3),
            "stale": self._stale,
            "success_rate": self.success_rate,
            "torque_rate_max": self._torque_rate,
            "latency_us": _percentiles_us(self._latencies),
            "lateness_us": _percentiles_us(self._lateness),
            "late_states": self._late_states,
        }


def _percentiles_us(nanoseconds: deque[int]) -> dict[str, float]:
    if not nanoseconds:
        return {}
    values = np.percentile(np.array(nanoseconds) / 1e3, _PERCENTILES)
    return {str(p): round(float(value), 1) for p, value in zip(_PERCENTILES, values)}
