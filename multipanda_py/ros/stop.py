# SPDX-License-Identifier: Apache-2.0
"""Service that makes all arms hold, independent of all other services of the node."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.config.node_names import STOP_SUFFIX
from multipanda_py.exceptions import MultipandaError
from multipanda_py.loop.events import Event
from multipanda_py.ros.deferred_responses import Work
from multipanda_py.ros.guard import GuardedNode
from multipanda_py.ros.separate_participant import SeparateParticipant

PATIENCE = 5e-3
"""Maximum time that the thread blocks for the loop, which answers at its next cycle [s]."""
LOOK_PERIOD = 2e-4


class Stop:
    """Service ``stop`` with a separate participant and thread.

    Under a flood of targets, the shared participant loses requests and repeats them seconds later,
    or they wait in its executor. This participant receives requests to stop only.

    Args:
        main: Main node of the cell, from which the name of the service is taken.
        cell: The cell.
        args: Command line, for the middleware's security.

    Attributes:
        participant: Node of the service, with its participant and thread.

    Thread: served by its own; :meth:`close` belongs to main.
    """

    def __init__(self, main: GuardedNode, cell: Cell, args: Sequence[str] | None = None) -> None:
        self._cell, self._logger = cell, main.get_logger()
        name = main.resolve_service_name("stop")
        self._by = f"service {name}"
        self.participant = SeparateParticipant(
            main,
            STOP_SUFFIX,
            cell.config.realtime,
            args,
            lambda node: node.serve(Trigger, name, self.handle),
        )

    def close(self) -> None:
        """Answer all pending requests, then destroy the node and its participant."""
        self.participant.close()

    def handle(self, request: Any, response: Any) -> Work:
        """Request a hold of all arms and answer, as a generator that waits for the loop."""
        try:
            pending, asked = self._cell.ask_hold(by=self._by), time.monotonic()
            while (result := pending.look()) is None:
                if time.monotonic() - asked < PATIENCE:
                    time.sleep(LOOK_PERIOD)
                else:  # a loop that stands still; somebody else may ask meanwhile
                    yield
            stopped = ", ".join(result.deactivated) or "nothing was active"
            response.success = True
            response.message = f"{who_holds(self._cell)}; deactivated: {stopped}"
            self._logger.info(f"stop: {response.message}")
        except MultipandaError as error:
            response.success, response.message = False, str(error)
            self._logger.error(f"stop failed: {error}")


def who_holds(cell: Cell) -> str:
    """Say that every arm holds, or which do not: an arm whose robot has stopped takes no torque.

    Args:
        cell: The cell, after a stop. Its faults are those of the newest cycle.
    """
    faults = {arm: fault for arm in cell.arms if (fault := cell.state(arm).fault)}
    out = [arm for arm, fault in faults.items() if Event[fault.upper()].takes_torque]
    if not out:
        text = "every arm holds"
    elif len(out) < len(cell.arms):
        text = "every other arm holds"
    else:
        text = "no arm can hold"
    return "; ".join([text, *(f"{arm} has a fault: {fault}" for arm, fault in faults.items())])
