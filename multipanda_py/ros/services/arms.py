# SPDX-License-Identifier: Apache-2.0
"""Services of the arms: recovery, tare, stop and attached objects."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from std_srvs.srv import Trigger

from multipanda_py.cell import Cell
from multipanda_py.cell.grippers import HOLDING_TIMEOUT
from multipanda_py.cell.recovery import RECOVERY_TIMEOUT, TARE_TIMEOUT
from multipanda_py.config.parameter_file import STOP_SUFFIX
from multipanda_py.exceptions import MultipandaError
from multipanda_py.realtime.events import Event
from multipanda_py.ros.node.deferred_responses import Work, until
from multipanda_py.ros.node.guard import GuardedNode
from multipanda_py.ros.node.participants import SeparateParticipant

RECOVERY_RESPONSE_TIMEOUT = RECOVERY_TIMEOUT + 5.0
"""Maximum time until a running node answers a recovery request [s]."""


class RecoveryServices:
    """Services ``error_recovery`` and ``<arm>/error_recovery``.

    The answer comes when the arms hold again, or with the reason of a failure. Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell, self._logger = cell, node.get_logger()
        node.serve(Trigger, "error_recovery", partial(self.recover, cell.arms))
        for arm in cell.arms:
            node.serve(Trigger, f"{arm}/error_recovery", partial(self.recover, (arm,)))

    def recover(self, arms: Sequence[str], request: Any, response: Any) -> Work:
        """Recover arms and fill in the response, as a generator that waits for the loop."""
        try:
            pending = self._cell.request_recovery(arms)
            while pending.poll() is None:
                yield
            response.success = True
            cleared = "; ".join(f"{arm}: {was} cleared" for arm, was in pending.faults.items())
            response.message = (
                f"{cleared}: the arm holds" if cleared else f"no fault on {', '.join(arms)}"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)
        self._logger.info(f"error_recovery: {response.message}")


class TareServices:
    """Services ``<arm>/tare`` and ``<arm>/untare``.

    The answer comes after half a second, when the arm is tared, or with the reason of a failure.
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
            pending = cell.request_tare(arm, undo=undo)
            offset = yield from until(
                cell,
                lambda: cell.tare_result(pending),
                f"the tare of {arm}",
                TARE_TIMEOUT,
                lambda: cell.cancel_tare(pending),
            )
            numbers = ", ".join(f"{value:.2f}" for value in offset)
            response.success = True
            response.message = (
                f"{arm}: the tare offset is removed"
                if undo
                else f"{arm}: [{numbers}] Nm are subtracted from the external joint torques"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)


TIMEOUT = 5e-3
"""Time for which a stop request blocks its thread; the loop answers at its next cycle [s]."""
POLL_PERIOD = 2e-4
"""Period of checking for an answer of the loop [s]."""


class Stop:
    """Service ``stop``, which holds all arms, with a separate DDS participant and thread.

    Args:
        args: Command line, which may have security options of the middleware.

    Attributes:
        participant: Node of the service, with its participant and thread.

    Thread: main for :meth:`close`, a separate one for callbacks.
    """

    def __init__(self, main: GuardedNode, cell: Cell, args: Sequence[str] | None = None) -> None:
        self._cell, self._logger = cell, main.get_logger()
        name = main.resolve_service_name("stop")
        self._by = f"service {name}"
        # With the other services, a flood of targets would delay requests by seconds.
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
            pending, requested_at = self._cell.request_hold(by=self._by), time.monotonic()
            while (result := pending.poll()) is None:
                if time.monotonic() - requested_at < TIMEOUT:
                    time.sleep(POLL_PERIOD)
                else:  # The loop is stalled: serve other clients meanwhile.
                    yield
            stopped = ", ".join(result.deactivated) or "no controllet was active"
            response.success = True
            response.message = f"{describe_holding_arms(self._cell)}; deactivated: {stopped}"
            self._logger.info(f"stop: {response.message}")
        except MultipandaError as error:
            response.success, response.message = False, str(error)
            self._logger.error(f"stop failed: {error}")


def describe_holding_arms(cell: Cell) -> str:
    """Return a text with the arms that hold after a stop, and those with a fault."""
    faults = {arm: fault for arm in cell.arms if (fault := cell.state(arm).fault)}
    out = [arm for arm, fault in faults.items() if Event[fault.upper()].takes_torque]
    if not out:
        text = "every arm holds"
    elif len(out) < len(cell.arms):
        text = "every other arm holds"
    else:
        text = "no arm can hold"
    return "; ".join([text, *(f"{arm} has a fault: {fault}" for arm, fault in faults.items())])


class HoldingServices:
    """Services ``<arm>/attach``, for the nearest movable object, and ``<arm>/detach``.

    The answer names the object or the reason of a failure. Thread: executor.
    """

    def __init__(self, node: GuardedNode, cell: Cell) -> None:
        self._cell = cell
        for arm in cell.arms:
            for name in ("attach", "detach"):
                node.serve(Trigger, f"{arm}/{name}", partial(self._change, arm, name))

    def _change(self, arm: str, name: str, request: Any, response: Any) -> Work:
        cell = self._cell
        try:
            pending = cell.request_attach(arm) if name == "attach" else cell.request_detach(arm)
            yield from until(
                cell,
                lambda: cell.attachment_done(pending) or None,
                f"{name} of {arm}",
                HOLDING_TIMEOUT,
                lambda: cell.cancel_attachment(pending),
            )
            response.success = True
            response.message = (
                f"{arm} holds {pending.object_name}, which is now part of its gripper"
                if name == "attach"
                else f"{arm} has detached {pending.object_name or 'nothing'}"
            )
        except MultipandaError as error:
            response.success, response.message = False, str(error)
