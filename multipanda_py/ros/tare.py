# SPDX-License-Identifier: Apache-2.0
"""Services to tare what an arm feels."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from rclpy.node import Node
from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell_tare import TARE_TIMEOUT
from multipanda_py.exceptions import LoopTimeout, MultipandaError
from multipanda_py.ros.running import Turn
from multipanda_py.state import Vector


class Tare:
    """Every ``<arm>/tare`` and ``<arm>/untare``.

    They are answered when the arm is tared, half a second later, or with the reason why not; the
    node goes on serving meanwhile.

    Thread: executor.
    """

    def __init__(self, node: Node, cell: Cell) -> None:
        self._cell, self._logger = cell, node.get_logger()
        for arm in cell.arms:
            for name, undo in (("tare", False), ("untare", True)):
                answer = partial(self._tare, arm, undo)
                node.create_service(Trigger, f"{arm}/{name}", answer)

    async def _tare(self, arm: str, undo: bool, request: Any, response: Any) -> Any:
        try:
            asked = self._cell.ask_tare(arm, undo=undo)
            since = time.monotonic()
            offset: Vector | None = None
            while offset is None:
                self._cell.check()
                offset = self._cell.tare_answer(asked)
                if offset is None:
                    if time.monotonic() - since > TARE_TIMEOUT:
                        fate = self._cell.withdraw_tare(asked)
                        raise LoopTimeout(f"{arm}: no answer within {TARE_TIMEOUT:g} s; {fate}")
                    await Turn()
            numbers = ", ".join(f"{value:.2f}" for value in offset)
            response.success = True
            response.message = (
                f"{arm}: nothing is taken off any more"
                if undo
                else f"{arm}: [{numbers}] Nm are taken off what its joints feel"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)
        return response
