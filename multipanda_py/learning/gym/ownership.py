# SPDX-License-Identifier: Apache-2.0
"""Arms of an environment that have stopped: why, and how they come back."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterable, Mapping

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import (
    ActionRejected,
    LoopError,
    LoopTimeout,
    MotionFailed,
    RecoveryFailed,
)
from multipanda_py.learning.gym.task import STALLED
from multipanda_py.realtime.events import LoopEvent


class OwnLaws:
    """See that no other law has an arm, and that no target is of long ago.

    Args:
        cell: That is started, in this process: one that runs elsewhere looks for itself.
        laws: Names of the controllets, by arm.
        is_lockstep: Whether time stands still between steps.

    Thread: the environment's.
    """

    def __init__(self, cell: Cell, laws: Mapping[str, str], is_lockstep: bool) -> None:
        self._cell, self._laws, self._is_lockstep = cell, dict(laws), is_lockstep
        self._told = math.inf

    def begin(self) -> None:
        """Take note that the laws have begun, and know of no target yet."""
        self._told = math.inf

    def told(self) -> None:
        """Take note that all arms have been told a target."""
        self._told = time.monotonic()

    def taken(self) -> str:
        """Say which arm is another law's and has no fault, or nothing."""
        for name, law in self._laws.items():
            state = self._cell.state(name)
            if not state.fault and state.owner != law:
                return (
                    f"{state.owner} has {name}, which was stopped or heard nothing of this "
                    "program for too long"
                )
        return ""

    def refuse(self) -> None:
        """Raise if arms hold, maybe where somebody has pushed them since.

        Raises:
            ActionRejected: If an arm is another law's.
            LoopError: If nothing was told for too long.
        """
        if taken := self.taken():
            raise ActionRejected(f"step: {taken}; allowed after reset()")
        silence = time.monotonic() - self._told
        if not self._is_lockstep and silence > STALLED:
            raise LoopError(
                f"step: no action came for {silence:.2f} s, allowed {STALLED:g} s: the arms hold; "
                "reset() begins anew"
            )


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
