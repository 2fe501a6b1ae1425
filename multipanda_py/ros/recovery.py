# SPDX-License-Identifier: Apache-2.0
"""Services to go on after a fault."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell.recovery import RECOVERY_TIMEOUT
from multipanda_py.exceptions import MultipandaError
from multipanda_py.ros.deferred_responses import Work
from multipanda_py.ros.guard import GuardedNode

ANSWERED = RECOVERY_TIMEOUT + 5.0
"""Maximum time until a running node answers a recovery [s]."""


class RecoveryServices:
    """``error_recovery`` and every ``<arm>/error_recovery``.

    A recovery is answered when the arms hold again, or with the reason why they cannot; the node
    goes on serving meanwhile.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._logger = cell, node.get_logger()
        node.serve(Trigger, "error_recovery", partial(self.recover, cell.arms))
        for arm in cell.arms:
            node.serve(Trigger, f"{arm}/error_recovery", partial(self.recover, (arm,)))

    def recover(self, arms: Sequence[str], request: Any, response: Any) -> Work:
        """Recover arms; the response gets ``success`` and ``message``."""
        try:
            pending = self._cell.ask_recovery(arms)
            while pending.look() is None:
                yield
            response.success = True
            cleared = "; ".join(f"{arm}: {was} cleared" for arm, was in pending.faults.items())
            response.message = (
                f"{cleared}: the arm holds" if cleared else f"no fault on {', '.join(arms)}"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)
        self._logger.info(f"error_recovery: {response.message}")
