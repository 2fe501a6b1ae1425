# SPDX-License-Identifier: Apache-2.0
"""When steps of an environment are due, in lockstep and in real time."""

from __future__ import annotations

import math
import time

from multipanda_py.cell.cell import Cell

CAUGHT_UP = 0.1
"""How late steps may be and still come one after the other until they are in time again [s]."""
STEP_TIMEOUT = 2.0
"""How long a step waits for its instant while the cell's clock stands still [s]."""
SHORTEST = 2e-4
"""Sleep before a look at the cell's clock [s]."""
REMEMBERED = 3.5
"""How far back instants that were left out are named, of the four that a loop keeps [s]."""


class StepClock:
    """Let the time of steps pass on a cell's clock.

    Args:
        rate: Steps a second [Hz].
        cycle_rate: Of the cell's loop [Hz].

    Attributes:
        period: Between steps [s].
        due: The instant of the newest step, by the cell's clock [s].
        left_out: Instants before it at which nobody acted, as this program was late.

    Thread: the environment's.
    """

    def __init__(self, rate: float, cycle_rate: float) -> None:
        self._rate, self._cycle_rate, self.due = rate, cycle_rate, 0.0
        self.period = 1.0 / rate
        self.left_out: tuple[float, ...] = ()

    def begin(self, cell: Cell) -> None:
        """Count from now on."""
        self.due, self.left_out = cell.time, ()

    def run(self, cell: Cell, step: int) -> None:
        """Run the cycles of a step, by its number; of 30 Hz they are 33, 33 and 34."""
        begin, end = (round(k * self._cycle_rate / self._rate) for k in (step, step + 1))
        cell.step(end - begin)

    def wait(self, cell: Cell) -> None:
        """Wait for the instant of the next step of a cell whose loop runs by itself.

        Up to :data:`CAUGHT_UP` of lateness are made up for; beyond, whole periods are left out.
        """
        period, now = self.period, cell.time
        due, count = self.due + period, 0
        if (late := now - due - max(period, CAUGHT_UP)) > 0.0:
            count = math.ceil(late / period)
        missed = (due + k * period for k in range(count))
        self.left_out = tuple(instant for instant in missed if instant > now - REMEMBERED)
        due += count * period
        self.due = min(due, now + period)  # the clock stands still while a loop is paused
        patience = time.monotonic() + STEP_TIMEOUT
        while (left := self.due - cell.time) > 0.0 and time.monotonic() < patience:
            time.sleep(max(left, SHORTEST))
