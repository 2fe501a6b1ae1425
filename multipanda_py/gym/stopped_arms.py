# SPDX-License-Identifier: Apache-2.0
"""Arms of an environment that have stopped: why, and how they come back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import LoopTimeout, MotionFailed, RecoveryFailed
from multipanda_py.loop.events import LoopEvent

RECOVER = "recover"
"""Name of the option of ``reset`` that brings arms back."""


class StoppedArms:
    """Say which arms have a fault that stays, in the words of the loop, and clear it if asked.

    Args:
        cell: That is started.
        arms: Of the environment.

    Thread: the environment's.
    """

    def __init__(self, cell: Cell, arms: Iterable[str]) -> None:
        self._cell, self._arms = cell, tuple(arms)

    def reasons(self) -> str:
        """Return arms with their faults, or an empty text."""
        faults = self._faults()
        if not faults:
            return ""
        said = self._said()
        words = {arm: f"{arm}: {fault}" for arm, fault in faults.items()}
        return ", ".join(
            f"{words[arm]} ({said[arm].text})" if arm in said else words[arm] for arm in faults
        )

    def refuse(self) -> None:
        """Raise if an arm has a fault: nobody else clears it, as somebody has to look first.

        Raises:
            MotionFailed: With what to do.
        """
        if reasons := self.reasons():
            raise MotionFailed(
                f"reset: {reasons}; once they may move again, reset(options={{{RECOVER!r}: True}})"
            )

    def recover(self) -> None:
        """Clear all faults; what cannot come back is for :meth:`refuse`.

        Raises:
            LoopError: If the loop has ended.
        """
        with contextlib.suppress(LoopTimeout, RecoveryFailed):
            self._cell.recover(self._arms)

    def _faults(self) -> dict[str, str]:
        faults = {arm: self._cell.state(arm).fault for arm in self._arms}
        return {arm: fault for arm, fault in faults.items() if fault}

    def _said(self) -> dict[str, LoopEvent]:
        """Return the newest fault of every arm that had one."""
        _, events = self._cell.events_since(0)
        return {event.arm: event for event in events if event.event.is_fault}
