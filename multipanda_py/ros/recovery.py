# SPDX-License-Identifier: Apache-2.0
"""Services to go on after a fault."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell.arm_request import given_up
from multipanda_py.exceptions import LoopTimeout, MultipandaError
from multipanda_py.ros.deferred_responses import Work, until
from multipanda_py.ros.diagnostics import Diagnostics
from multipanda_py.ros.guard import GuardedNode

CLEAR_TIMEOUT = 20.0
"""How long it may take to clear a fault: a real arm may need a new driver [s]."""


class RecoveryServices:
    """``error_recovery`` and every ``<arm>/error_recovery``.

    A recovery is answered when the arms hold again, or when they say why they cannot; the node
    goes on serving meanwhile.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell, diagnostics: Diagnostics) -> None:
        self._cell, self._diagnostics, self._logger = cell, diagnostics, node.get_logger()
        node.serve(Trigger, "error_recovery", partial(self.recover, cell.arms))
        for arm in cell.arms:
            node.serve(Trigger, f"{arm}/error_recovery", partial(self.recover, (arm,)))

    def recover(self, arms: Sequence[str], request: Any, response: Any) -> Work:
        """Recover arms; the response gets ``success`` and ``message``."""
        try:
            if reason := self._cell.silence_reason():  # the newest faults are not known
                raise LoopTimeout(f"nothing is recovered: {reason}")
            faults = self._faults(arms)
            since_ns = time.monotonic_ns()
            asked = self._cell.ask_recovery(arms)

            def look() -> bool | None:
                return None if self._may_recover(asked.arms, since_ns) else True

            def give_up() -> str:
                return given_up(self._cell.withdraw_recovery(asked))

            what = f"the recovery of {', '.join(asked.arms)}"
            yield from until(self._cell, look, what, CLEAR_TIMEOUT, give_up)
            left = self._faults(asked.arms)
            response.success = not left
            if left:
                reasons = [f"{arm}: {self._why(arm, kind)}" for arm, kind in left.items()]
                response.message = f"still faulted: {'; '.join(reasons)}"
            elif asked.arms:
                cleared = [f"{arm}: {faults.get(arm, 'fault')} cleared" for arm in asked.arms]
                response.message = f"{'; '.join(cleared)}: the arm holds"
            else:
                response.message = f"no fault on {', '.join(arms)}"
        except MultipandaError as error:
            response.success, response.message = False, str(error)
        self._logger.info(f"error_recovery: {response.message}")

    def _faults(self, arms: Sequence[str]) -> dict[str, str]:
        """Return the kinds of the faults that are latched now."""
        faults = {arm: self._cell.state(arm).fault for arm in arms}
        return {arm: fault for arm, fault in faults.items() if fault}

    def _why(self, arm: str, kind: str) -> str:
        event = self._diagnostics.faults.get(arm)
        return f"{kind}: {event.text}" if event is not None else kind

    def _may_recover(self, arms: Sequence[str], since_ns: int) -> bool:
        """Return whether an arm still is faulted, and has not said why it cannot recover."""
        self._diagnostics.log_events()
        events = self._diagnostics.faults
        return any(
            arm not in events or events[arm].time_ns <= since_ns for arm in self._faults(arms)
        )
