# SPDX-License-Identifier: Apache-2.0
"""Services to tare what an arm feels."""

from __future__ import annotations

from functools import partial
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell.tare import TARE_TIMEOUT
from multipanda_py.exceptions import MultipandaError
from multipanda_py.ros.deferred_responses import Work, until
from multipanda_py.ros.guard import GuardedNode


class TareServices:
    """Every ``<arm>/tare`` and ``<arm>/untare``.

    They are answered when the arm is tared, half a second later, or with the reason why not; the
    node goes on serving meanwhile.

    Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell = cell
        for arm in cell.arms:
            for name, undo in (("tare", False), ("untare", True)):
                answer = partial(self._tare, arm, undo)
                node.serve(Trigger, f"{arm}/{name}", answer)

    def _tare(self, arm: str, undo: bool, request: Any, response: Any) -> Work:
        cell = self._cell
        try:
            asked = cell.ask_tare(arm, undo=undo)
            offset = yield from until(
                cell,
                lambda: cell.tare_answer(asked),
                f"the tare of {arm}",
                TARE_TIMEOUT,
                lambda: cell.withdraw_tare(asked),
            )
            numbers = ", ".join(f"{value:.2f}" for value in offset)
            response.success = True
            response.message = (
                f"{arm}: nothing is taken off any more"
                if undo
                else f"{arm}: [{numbers}] Nm are taken off what its joints feel"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)
