# SPDX-License-Identifier: Apache-2.0
"""Whether arms are still the environment's, so that a target means what it meant."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from multipanda_py.cell.cell import Cell
from multipanda_py.exceptions import ActionRejected, LoopError
from multipanda_py.gym.scene_file import STALLED


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
