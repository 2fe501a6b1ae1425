# SPDX-License-Identifier: Apache-2.0
"""Services to stop everything, and to go on after a fault."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.exceptions import LoopTimeout, MultipandaError

CLEAR_TIMEOUT = 0.5
"""How long the loop may take to clear a fault [s]."""


class Recovery:
    """``stop``, ``error_recovery`` and every ``<arm>/error_recovery``. Thread: executor."""

    def __init__(self, node: Node, cell: Cell) -> None:
        self._cell, self._logger = cell, node.get_logger()
        node.create_service(Trigger, "stop", self._stop)
        node.create_service(Trigger, "error_recovery", partial(self._recover, cell.arms))
        for arm in cell.arms:
            node.create_service(Trigger, f"{arm}/error_recovery", partial(self._recover, (arm,)))

    def _stop(self, request: Any, response: Any) -> Any:
        try:
            result = self._cell.hold()
            stopped = ", ".join(result.deactivated) or "nothing was active"
            response.success = True
            response.message = f"every arm holds; deactivated: {stopped}"
            self._logger.info(f"stop: {response.message}")
        except MultipandaError as error:
            response.success, response.message = False, str(error)
            self._logger.error(f"stop failed: {error}")
        return response

    def _recover(self, arms: Sequence[str], request: Any, response: Any) -> Any:
        cell = self._cell
        try:
            faults = {arm: cell.state(arm).fault for arm in arms}
            faulted = cell.recover(arms)
            response.message = "; ".join(f"{arm}: {faults[arm]} cleared" for arm in faulted)
            response.message += ": the arm holds" if faulted else f"no fault on {', '.join(arms)}"
            cell.wait(lambda: not self._left(faulted), CLEAR_TIMEOUT)
            response.success = True
        except LoopTimeout:
            left = [f"{arm}: {fault}" for arm, fault in self._left(arms).items()]
            response.success, response.message = False, f"still faulted: {'; '.join(left)}"
        except MultipandaError as error:
            response.success, response.message = False, str(error)
        self._logger.info(f"error_recovery: {response.message}")
        return response

    def _left(self, arms: Sequence[str]) -> dict[str, str]:
        faults = {arm: self._cell.state(arm).fault for arm in arms}
        return {arm: fault for arm, fault in faults.items() if fault}
