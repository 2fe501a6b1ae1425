# SPDX-License-Identifier: Apache-2.0
"""Something that the loop has been asked to do with one arm, and its answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.names import CellNames
from multipanda_py.exceptions import LoopTimeout, MultipandaError
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.shared_memory import ANSWER_HEAD, Mailbox, Slot
from multipanda_py.state import Vector

STILL = 1.0
"""Silence of the loop after which its answers are not waited for any longer [s]."""
Slots: TypeAlias = Sequence[Slot]
_T = TypeVar("_T")


@dataclass(frozen=True)
class ArmRequest:
    """Something that the loop has been asked to do with one arm, and will answer by an event.

    Attributes:
        arm: The arm.
        number: Of the record.
        events: How many there were before.
    """

    arm: str
    number: int
    events: int


@dataclass(frozen=True)
class RequestKind:
    """What the loop may be asked to do with an arm, if it answers with a record.

    Attributes:
        name: As refusals and counts call it.
        refusal: Raised when the loop refuses.
        events: By which the loop says why.
        slots: Returns the requests and the answers of a mailbox, each by arm.
    """

    name: str
    refusal: type[MultipandaError]
    events: Collection[Event]
    slots: Callable[[Mailbox], tuple[Slots, Slots]]


class ArmRequests:
    """Ask the loop for one kind of thing, arm by arm, and read its answers.

    An answer is the number of the request, whether it was done, and what is in force since.

    Args:
        kind: What is asked for.
        names: Of the cell's arms.
        connection: To its loop.
        counts: Where refusals and withdrawals go.
    """

    def __init__(
        self, kind: RequestKind, names: CellNames, connection: Connection, counts: Counts
    ) -> None:
        self._kind, self._names = kind, names
        self._connection, self._counts = connection, counts

    def newest(self, arm: str) -> Vector | None:
        """Return what the newest answer says is in force; None if there is none."""
        _, answers = self._kind.slots(self._connection.mailbox)
        answer = answers[self._names.arm_index(arm)].newest()
        return None if answer is None else answer[ANSWER_HEAD:]

    def ask(self, arm: str, record: Vector) -> ArmRequest:
        """Hand the loop a record and return at once."""
        index = self._names.arm_index(arm)
        with self._connection.lock:
            box = self._connection.mailbox
            events = box.event_count
            number = self._connection.post(self._kind.slots(box)[0][index], record)
        return ArmRequest(arm, number, events)

    def answer(self, request: ArmRequest) -> Vector | None:
        """Return what is in force now, or None while there is no answer.

        Raises:
            MultipandaError: The kind's refusal, with the reason of the loop, or if a newer request
                has replaced this one.
        """
        arm, kind, box = request.arm, self._kind, self._connection.mailbox
        answer = kind.slots(box)[1][self._names.arm_index(arm)].newest()
        if answer is None or answer[0] < request.number:
            return None
        if answer[0] == request.number and answer[1]:
            return answer[ANSWER_HEAD:]
        self._counts.rejected[f"{arm} {kind.name}"] += 1
        if answer[0] > request.number:
            raise kind.refusal(f"{arm}: a newer {kind.name} request has replaced this one")
        found = box.events_since(request.events)[1]
        reasons = [e.text for e in found if e.arm == arm and e.event in kind.events]
        raise kind.refusal(reasons[-1] if reasons else f"{arm}: see the loop's events")

    def withdraw(self, request: ArmRequest) -> str:
        """Give a request up; return in words whether it still may come about."""
        requests, _ = self._kind.slots(self._connection.mailbox)
        slot = requests[self._names.arm_index(request.arm)]
        return given_up(self._connection.withdraw(slot, request.number, self._kind.name))

    def wait(self, request: ArmRequest, timeout: float) -> Vector:
        """Return the answer to a request, or withdraw it.

        Raises:
            MultipandaError: As :meth:`answer`.
            LoopTimeout: If none came in time; says whether it still may come about.
        """
        what = f"an answer of arm {request.arm} to its {self._kind.name}"
        return wait_or_withdraw(
            self._connection,
            lambda: self.answer(request),
            lambda: self.withdraw(request),
            timeout,
            what,
        )


def wait_or_withdraw(
    connection: Connection,
    answer: Callable[[], _T | None],
    withdraw: Callable[[], str],
    timeout: float,
    what: str,
) -> _T:
    """Return an answer of the loop as soon as there is one.

    Raises:
        LoopTimeout: If ``what`` did not come in time; the request is withdrawn then, or pending.
    """
    found: list[_T] = []

    def is_answered() -> bool:
        value = answer()
        if value is not None:
            found.append(value)
        return value is not None

    try:
        connection.wait(is_answered, timeout, what)
    except LoopTimeout as error:
        raise LoopTimeout(f"{error}; {withdraw()}") from None
    except KeyboardInterrupt:
        withdraw()
        raise
    return found[0]


def given_up(withdrawn: bool) -> str:
    """Say whether a request that is not waited for any more still may be carried out."""
    if withdrawn:
        return "it is withdrawn and will not happen"
    return "it has begun and is pending: see what the arm has then"
