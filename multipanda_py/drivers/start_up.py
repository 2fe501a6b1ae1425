# SPDX-License-Identifier: Apache-2.0
"""The start of arms: faults of a busy machine are tried again, a few times."""

from __future__ import annotations

from collections.abc import Iterable

from multipanda_py.drivers.watch import Fault

ATTEMPTS = 4
"""Number of attempts to start an arm."""
SETTLED = 100
"""Consecutive states that an arm executes commands in, after which its start is over."""


class StartUp:
    """Attempts to start the arms of a backend.

    Args:
        arms: Indices of the arms.

    Thread: control.
    """

    def __init__(self, arms: Iterable[int]) -> None:
        self._attempts = dict.fromkeys(arms, 1)
        self._executed = dict.fromkeys(self._attempts, 0)

    @property
    def is_over(self) -> bool:
        """Whether every arm has started or is given up."""
        return not self._attempts

    def note_state(self, arm: int, executing: bool) -> None:
        """Count a new state of an arm, in which it executes commands or not."""
        if arm in self._attempts:
            self._executed[arm] = self._executed[arm] + 1 if executing else 0
            if self._executed[arm] >= SETTLED:
                del self._attempts[arm]

    def tries_again(self, arm: int, fault: Fault) -> int:
        """Return the number of the attempt that a fault has ended, if another one follows.

        Returns:
            The number from 1; 0 if the fault stands: the start is over, the fault needs somebody
            at the robot, or it was the last attempt.
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
        """End the start of an arm; return the number of attempts, 0 if it was over."""
        return self._attempts.pop(arm, 0)
