# SPDX-License-Identifier: Apache-2.0
"""Requests to the control loop for one arm, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.exceptions import LoopTimeout, MultipandaError
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import ANSWER_HEADER_WIDTH, Mailbox, SeqlockBuffer
from multipanda_py.state import Vector

LOOP_TIMEOUT = 1.0
"""Time without a cycle after which clients stop waiting for answers of the loop [s]."""
Slots: TypeAlias = Sequence[SeqlockBuffer]
_T = TypeVar("_T")


@dataclass(frozen=True)
class ArmRequest:
    """Handle of a request to the loop for one arm.

    Attributes:
        arm: Name of the arm.
        number: Sequence number of the request.
        events: Number of events of the loop before the request. Later events contain the reason of
            a refusal.
    """

    arm: str
    number: int
    events: int


@dataclass(frozen=True)
class RequestKind:
    """Kind of request for one arm, such as a tare.

    Attributes:
        name: Name of the kind in messages and in :class:`.Counts`.
        refusal: Type of the error to raise when the loop refuses a request.
        events: Types of the events that contain the reason of a refusal.
        slots: Function that returns two lists of shared-memory buffers, one per arm: for requests
            and for answers.
    """

    name: str
    refusal: type[MultipandaError]
    events: Collection[Event]
    slots: Callable[[Mailbox], tuple[Slots, Slots]]


class ArmRequests:
    """Send requests of one kind to the loop, and read its answers."""

    def __init__(
        self, kind: RequestKind, names: CellNames, connection: Connection, counts: Counts
    ) -> None:
        self._kind, self._names = kind, names
        self._connection, self._counts = connection, counts

    def newest(self, arm: str) -> Vector | None:
        """Return the content of the newest answer of the loop for an arm; None if none exists."""
        _, answers = self._kind.slots(self._connection.mailbox)
        answer = answers[self._names.arm_index(arm)].newest()
        return None if answer is None else answer[ANSWER_HEADER_WIDTH:]

    def request(self, arm: str, record: Vector) -> ArmRequest:
        """Send a request, given as an array of numbers, without waiting for the answer."""
        index = self._names.arm_index(arm)
        with self._connection.lock:
            box = self._connection.mailbox
            events = box.event_count
            number = self._connection.post(self._kind.slots(box)[0][index], record)
        return ArmRequest(arm, number, events)

    def answer(self, request: ArmRequest) -> Vector | None:
        """Return the content of the answer to a request; None until the loop has answered.

        Raises:
            MultipandaError: If the loop refused the request, or a newer request replaced it. The
                type is :attr:`RequestKind.refusal`.
        """
        arm, kind, box = request.arm, self._kind, self._connection.mailbox
        answer = kind.slots(box)[1][self._names.arm_index(arm)].newest()
        if answer is None or answer[0] < request.number:
            return None
        if answer[0] == request.number and answer[1]:
            return answer[ANSWER_HEADER_WIDTH:]
        self._counts.rejected[f"{arm} {kind.name}"] += 1
        if answer[0] > request.number:
            raise kind.refusal(f"{arm}: a newer {kind.name} request has replaced this one")
        result = box.events_since(request.events)[1]
        reasons = [e.text for e in result if e.arm == arm and e.event in kind.events]
        raise kind.refusal(
            reasons[-1] if reasons else f"{arm}: the request failed. See the events of the loop"
        )

    def cancel(self, request: ArmRequest) -> str:
        """Cancel a request, unless the loop has received it; return the outcome as text."""
        requests, _ = self._kind.slots(self._connection.mailbox)
        slot = requests[self._names.arm_index(request.arm)]
        return describe_withdrawal(
            self._connection.withdraw(slot, request.number, self._kind.name)
        )

    def wait(self, request: ArmRequest, timeout: float) -> Vector:
        """Return the content of the answer to a request; after a timeout, cancel the request.

        Raises:
            MultipandaError: If the loop refused the request, as for :meth:`answer`.
            LoopTimeout: If no answer came in time. The message has the outcome of :meth:`cancel`.
        """
        description = f"the answer of arm {request.arm} to its {self._kind.name} request"
        return wait_or_withdraw(
            self._connection,
            lambda: self.answer(request),
            lambda: self.cancel(request),
            timeout,
            description,
        )


def wait_or_withdraw(
    connection: Connection,
    answer: Callable[[], _T | None],
    withdraw: Callable[[], str],
    timeout: float,
    description: str,
) -> _T:
    """Wait for an answer of the loop and return it; withdraw the request after a timeout.

    Args:
        connection: Connection to the control loop.
        answer: Function that returns the answer; None until the loop has answered.
        withdraw: Function that withdraws the request and returns the outcome as text.
        timeout: Maximum time to wait [s].
        description: Name of the answer in the error message.

    Raises:
        LoopTimeout: If no answer came in time. The message has the result of ``withdraw``.
    """
    result: list[_T] = []

    def is_answered() -> bool:
        value = answer()
        if value is not None:
            result.append(value)
        return value is not None

    try:
        connection.wait(is_answered, timeout, description)
    except LoopTimeout as error:
        raise LoopTimeout(f"{error}; {withdraw()}") from None
    except KeyboardInterrupt:
        withdraw()
        raise
    return result[0]


def describe_withdrawal(withdrawn: bool) -> str:
    """Return the text for a message on whether a request was withdrawn."""
    if withdrawn:
        return "it is withdrawn and will not happen"
    return "it has been started and is pending: check the resulting state of the arm"
