# SPDX-License-Identifier: Apache-2.0
"""Attempts to start the arms of a backend, as a busy machine may cause transient faults."""

from __future__ import annotations

from collections.abc import Iterable

from multipanda_py.drivers.watch import Fault

ATTEMPTS = 4
"""Maximum number of attempts to start an arm."""
SETTLED = 1000
"""Consecutive states with executed commands, after which the start of an arm is over.

Where loops and drivers fill the cores, the kernel gives ordinary programs 50 ms of each second.
The first second includes one of these gaps.
"""


class StartUp:
    """Counter of attempts to start the arms of a backend.

    Args:
        arms: Indices of the arms.

    Thread: control.
    """

    def __init__(self, arms: Iterable[int]) -> None:
        self._attempts = dict.fromkeys(arms, 1)
        self._executed = dict.fromkeys(self._attempts, 0)

    @property
    def is_over(self) -> bool:
        """Whether every arm has started, or has used all attempts."""
        return not self._attempts

    def note_state(self, arm: int, executing: bool) -> None:
        """Count a new state of an arm, and whether it executes commands."""
        if arm in self._attempts:
            self._executed[arm] = self._executed[arm] + 1 if executing else 0
            if self._executed[arm] >= SETTLED:
                del self._attempts[arm]

    def tries_again(self, arm: int, fault: Fault) -> int:
        """Return the number of the attempt that a fault has ended, if there is another attempt.

        Returns:
            Number of the attempt, from 1. It is 0 if the fault is final: the start is over, the
            fault is not transient, or this was the last attempt.
        """
        attempt = self._attempts.get(arm, 0)
        if not attempt:
            return 0
        self._executed[arm] = 0
        if fault.is_transient and attempt < ATTEMPTS:
            self._attempts[arm] += 1
            return attempt
        return 0

    def give_up(self, arm: int) -> int:
        """End the start of an arm; return the number of attempts, 0 if it was over already."""
        return self._attempts.pop(arm, 0)
