# SPDX-License-Identifier: Apache-2.0
"""Measured states that come late."""

from __future__ import annotations

from collections import deque

from multipanda_py.simulation.drive import Stage
from multipanda_py.state import ArmState, Vector


class Delay(Stage):
    r"""Show the state of some cycles ago, :math:`x_{seen}(t) = x(t - \Delta)`.

    Args:
        cycles: How many.

    Thread: control.
    """

    CHANGING = ("_past",)

    def __init__(self, cycles: int) -> None:
        self._cycles = cycles
        self._past: deque[tuple[Vector, ...]] = deque()

    def measure(self, state: ArmState) -> None:
        """Replace a measured state by the one that is due."""
        now = (state.q, state.dq, state.tau_J, state.tau_ext)
        self._past.append(tuple(part.copy() for part in now))
        seen = self._past.popleft() if len(self._past) > self._cycles else self._past[0]
        for part, value in zip(now, seen):
            part[:] = value
