# SPDX-License-Identifier: Apache-2.0
"""Services to say what the hands hold."""

from __future__ import annotations

from functools import partial
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell.holding import HOLDING_TIMEOUT
from multipanda_py.exceptions import MultipandaError
from multipanda_py.ros.deferred_responses import Work, until
from multipanda_py.ros.guard import GuardedNode


class HoldingServices:
    """Every ``<arm>/attach``, of the nearest movable thing, and ``<arm>/detach``.

    The answer names the thing, or says why not. Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell = cell
        for arm in cell.arms:
            for name in ("attach", "detach"):
                node.serve(Trigger, f"{arm}/{name}", partial(self._change, arm, name))

    def _change(self, arm: str, name: str, request: Any, response: Any) -> Work:
        cell = self._cell
        try:
            asked = cell.ask_attach(arm) if name == "attach" else cell.ask_detach(arm)
            yield from until(
                cell,
                lambda: cell.holding_answer(asked) or None,
                f"{name} of {arm}",
                HOLDING_TIMEOUT,
                lambda: cell.withdraw_holding(asked),
            )
            response.success = True
            response.message = (
                f"{arm} holds {asked.thing}, which counts as a part of its hand"
                if name == "attach"
                else f"{arm} has let go of {asked.thing or 'nothing'}"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)
