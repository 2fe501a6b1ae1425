# SPDX-License-Identifier: Apache-2.0
"""Checks that arms of an environment are owned by its controllets and have not stopped."""

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
from multipanda_py.learning.gym.task import ACTION_TIMEOUT
from multipanda_py.realtime.events import LoopEvent


class OwnershipCheck:
    """Check that the environment's controllets own their arms and that targets are recent.

    Args:
        cell: Running cell in this process. A remote cell performs these checks itself.
        laws: Names of the controllets by arm.
        is_lockstep: True if the cell time advances only in steps.

    Thread: that of the environment.
    """

    def __init__(self, cell: Cell, laws: Mapping[str, str], is_lockstep: bool) -> None:
        self._cell, self._laws, self._is_lockstep = cell, dict(laws), is_lockstep
        self._last_target_time = math.inf

    def reset(self) -> None:
        """Reset the time of the last targets at the start of an episode."""
        self._last_target_time = math.inf

    def mark_sent(self) -> None:
        """Store the time at which all arms received a target."""
        self._last_target_time = time.monotonic()

    def ownership_fault(self) -> str:
        """Return a message if another controllet owns an arm without a fault, else nothing."""
        for name, law in self._laws.items():
            state = self._cell.state(name)
            if not state.fault and state.owner != law:
                return (
                    f"{state.owner} controls {name}, which was stopped or received no targets "
                    "for too long"
                )
        return ""

    def refuse(self) -> None:
        """Refuse a step while arms hold, since they may have been moved by hand.

        Raises:
            ActionRejected: If another controllet owns an arm.
            LoopError: If the last targets are too old.
        """
        if taken := self.ownership_fault():
            raise ActionRejected(f"step: {taken}. Call reset() first.")
        age = time.monotonic() - self._last_target_time
        if not self._is_lockstep and age > ACTION_TIMEOUT:
            raise LoopError(
                f"step: no action for {age:.2f} s, allowed {ACTION_TIMEOUT:g} s. The arms hold. "
                f"Call "
                "reset() to start a new episode."
            )


RECOVER_OPTION = "recover"
"""Option of ``reset`` that recovers stopped arms."""


class ArmFaults:
    """Monitor of arm faults, with recovery on request.

    Args:
        cell: Running cell.
        arms: Names of the arms of the environment.

    Thread: that of the environment.
    """

    def __init__(self, cell: Cell, arms: Iterable[str]) -> None:
        self._cell, self._arms = cell, tuple(arms)

    def reasons(self) -> str:
        """Return the arms with their faults as text, empty without faults."""
        faults = self._faults()
        if not faults:
            return ""
        response = self._reports()
        words = {arm: f"{arm}: {fault}" for arm, fault in faults.items()}
        return ", ".join(
            f"{words[arm]} ({response[arm].text})" if arm in response else words[arm]
            for arm in faults
        )

    def refuse(self) -> None:
        """Refuse to continue with a fault, because a person has to inspect the arm first.

        Raises:
            MotionFailed: If an arm has a fault. The message names the option to recover it.
        """
        if reasons := self.reasons():
            raise MotionFailed(
                f"reset: {reasons}. Once they may move, call "
                f"reset(options={{{RECOVER_OPTION!r}: True}})."
            )

    def recover(self) -> None:
        """Clear all faults. Arms that cannot recover are reported by :meth:`refuse`.

        Raises:
            LoopError: If the loop has ended.
        """
        with contextlib.suppress(LoopTimeout, RecoveryFailed):
            self._cell.recover(self._arms)

    def _faults(self) -> dict[str, str]:
        faults = {arm: self._cell.state(arm).fault for arm in self._arms}
        return {arm: fault for arm, fault in faults.items() if fault}

    def _reports(self) -> dict[str, LoopEvent]:
        """Return the latest fault event by arm."""
        _, events = self._cell.events_since(0)
        return {event.arm: event for event in events if event.event.is_fault}
