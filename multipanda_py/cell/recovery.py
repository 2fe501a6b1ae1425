# SPDX-License-Identifier: Apache-2.0
"""Tare the arms of a cell: take off what they feel while nothing touches them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.arm_request import STILL, ArmRequest, ArmRequests, RequestKind, given_up
from multipanda_py.cell.connection import Connection, Counts, seconds
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.exceptions import LoopTimeout, RecoveryFailed, TareRejected
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.state import Vector


class HoldReasons:
    """Reason of the present hold of each arm, from the events of a loop.

    Args:
        arms: Names of the arms.
    """

    def __init__(self, arms: Iterable[str]) -> None:
        self._reasons = dict.fromkeys(arms, "")

    def note(self, event: LoopEvent) -> None:
        """Process an event; events come in the order of their reports."""
        if not event.event.ends_laws:
            return
        text = f"{event.event.name.lower()}: {event.text}"
        for arm in [event.arm] if event.arm in self._reasons else list(self._reasons):
            self._reasons[arm] = text

    def of(self, arm: str) -> str:
        """Return the reason why an arm holds; empty if it has held since the start."""
        return self._reasons[arm]


RECOVERY_TIMEOUT = 20.0
"""Default timeout of a recovery: a real arm may need a new driver [s]."""


class PendingRecovery:
    """One recovery, from the request to its answer. Nothing here waits for the loop.

    Args:
        recovery: Requests of the cell.
        faults: Kind of the latched fault of every arm that is recovered, by name.
        number: Number of the request's record, 0 without arms.
        events: Number of events before the request.
        timeout: Maximum time until the answer [s].

    Attributes:
        faults: Kind of the fault that each arm had when its recovery was requested.
    """

    def __init__(
        self,
        recovery: Recovery,
        faults: Mapping[str, str],
        number: int,
        events: int,
        timeout: float,
    ) -> None:
        self.faults = dict(faults)
        self._recovery, self._number, self._events = recovery, number, events
        self._began, self._timeout = time.monotonic(), timeout

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms that had a fault."""
        return tuple(self.faults)

    def look(self) -> tuple[str, ...] | None:
        """Return the names of the recovered arms, or None while there is no answer.

        Raises:
            RecoveryFailed: If an arm keeps its fault; names it and the reason. The others hold.
            LoopTimeout: If an arm did not answer in time, or the loop does not run. The request
                is withdrawn then; the message says whether it may still be executed.
        """
        recovery = self._recovery
        left = recovery.faults(self.arms)
        if not left:
            return self.arms
        reasons = recovery.reasons(self._number, self._events)
        failed = {arm: f"{kind}: {reasons[arm]}" for arm, kind in left.items() if arm in reasons}
        if len(failed) == len(left):
            text = "; ".join(f"{arm}: {reason}" for arm, reason in failed.items())
            hold = [arm for arm in self.arms if arm not in failed]
            others = f"; {', '.join(hold)}: recovered" if hold else ""
            raise RecoveryFailed(f"still faulted: {text}{others}", failed)
        waited = time.monotonic() - self._began
        silence = recovery.silence_of_loop()
        if waited > self._timeout or (waited > STILL and silence):
            open_arms = ", ".join(arm for arm in left if arm not in failed)
            known = "".join(f"; {arm} is still faulted: {text}" for arm, text in failed.items())
            raise LoopTimeout(
                f"no answer to the recovery of {open_arms} within {waited:.1f} s"
                f"{f' ({silence})' if silence else ''}; {self.withdraw()}{known}"
            )
        return None

    def withdraw(self) -> str:
        """Withdraw the request; return a text on whether it may still be executed."""
        return self._recovery.withdraw(self._number)


@dataclass
class _Request:
    """Arms of one request, as flags, and number of the newest record with them."""

    flags: Vector
    carrier: int = 0


class Recovery:
    """Have the loop clear the faults of arms.

    Args:
        names: Arms and instances of the cell.
        connection: Connection to its loop.
        reader: Reader of its states.
    """

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._requests: dict[int, _Request] = {}

    def recover(
        self, arms: Sequence[str] | None = None, *, timeout: float = RECOVERY_TIMEOUT
    ) -> tuple[str, ...]:
        """Clear latched faults and return when the arms hold where they are.

        No controllet starts again by itself. If one of several arms keeps its fault, the others
        are recovered all the same.

        Args:
            arms: Names of the arms; None for all.
            timeout: Maximum time to wait [s].

        Returns:
            Names of the recovered arms; empty if none had a fault.

        Raises:
            RecoveryFailed: If an arm keeps its fault; names it and the reason.
            LoopTimeout: If an arm did not answer in time, or the loop does not run.
            UnknownName: If there is no such arm.
        """
        wait = seconds(timeout, RecoveryFailed)
        while self._reader.silence_reason() and not self.silence_of_loop():
            self._connection.pause()  # the loop may only be late
        pending = self.ask(arms, wait)
        try:
            while (recovered := pending.look()) is None:
                self._connection.pause()
        except KeyboardInterrupt:
            pending.withdraw()
            raise
        return recovered

    def ask(
        self, arms: Sequence[str] | None = None, timeout: float = RECOVERY_TIMEOUT
    ) -> PendingRecovery:
        """Request a recovery and return at once; the ``look`` of the result answers.

        Raises:
            LoopTimeout: If the loop does not run: the newest faults are not known.
            UnknownName: If there is no such arm.
        """
        wait = seconds(timeout, RecoveryFailed)
        if silence := self._reader.silence_reason():
            raise LoopTimeout(f"nothing is recovered: {silence}")
        faults = self.faults(self._names.arms if arms is None else arms)
        events = self._connection.mailbox.event_count
        if not faults:
            return PendingRecovery(self, faults, 0, events, wait)
        flags = np.array([float(arm in faults) for arm in self._names.arms])
        with self._connection.lock:
            self._forget_taken()
            request = _Request(flags)
            number = self._post([request, *self._requests.values()])
            self._requests[number] = request
            return PendingRecovery(self, faults, number, events, wait)

    def withdraw(self, number: int) -> str:
        """Withdraw a request; return a text on whether it may still be executed.

        All requests share one record. A record with the arms of the other requests replaces it.
        """
        connection = self._connection
        with connection.lock:
            self._forget_taken()
            request = self._requests.pop(number, None)
            if request is None:
                return given_up(not number)
            slot = connection.mailbox.recover
            withdrawn = connection.withdraw(slot, request.carrier, "recovery")
            if withdrawn and self._requests:
                self._post(list(self._requests.values()))
        return given_up(withdrawn)

    def _post(self, requests: Sequence[_Request]) -> int:
        """Post a record with the arms of all requests; return its number."""
        flags = np.max([request.flags for request in requests], axis=0)
        number = self._connection.post(self._connection.mailbox.recover, flags)
        for request in requests:
            request.carrier = number
        return number

    def _forget_taken(self) -> None:
        """Forget the requests whose record the loop has received."""
        taken = self._connection.mailbox.recover.taken
        self._requests = {n: one for n, one in self._requests.items() if one.carrier > taken}

    def faults(self, arms: Sequence[str]) -> dict[str, str]:
        """Return the kinds of latched faults, by arm."""
        found = {arm: self._reader.state(arm).fault for arm in arms}
        return {arm: fault for arm, fault in found.items() if fault}

    def reasons(self, number: int, events: int) -> dict[str, str]:
        """Return the newest fault of every arm since a request was received, by arm."""
        box = self._connection.mailbox
        if not self._is_answered(box, number):
            return {}
        found: dict[str, str] = {}
        for event in box.events_since(events)[1]:
            if event.event.is_fault:
                found[event.arm] = event.text
            elif event.event is Event.RECOVERED:
                found.pop(event.arm, None)
        return found

    def silence_of_loop(self) -> str:
        """Return why the loop gives no answers; empty if it runs."""
        if self._connection.silence() < STILL and not self._connection.mailbox.is_paused:
            return ""
        return self._reader.silence_reason()

    def _is_answered(self, box: Mailbox, number: int) -> bool:
        return box.recover.taken >= number


TARE_TIMEOUT = 3.0
"""Longer than the loop takes over a measurement [s]."""
_KIND = RequestKind(
    "tare",
    TareRejected,
    (Event.TARED, Event.TARE_REFUSED),
    lambda box: (box.tares, box.tare_answers),
)


class Tare:
    """Have the loop tare arms, and know what it takes off.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        counts: Where refusals and withdrawals go.
    """

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names = names
        self._requests = ArmRequests(_KIND, names, connection, counts)

    def offset(self, arm: str) -> Vector:
        """Return what is taken off the external torques of an arm, (n,) [Nm]; zeros if nothing is.

        Raises:
            UnknownName: If there is no such arm.
        """
        offset = self._requests.newest(arm)
        if offset is not None:
            return offset
        return np.zeros(self._names.arm_config(arm).robot.n_joints)

    def tare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> Vector:
        """Measure for half a second what an arm feels, and take it off from then on.

        The arm has to hold, at rest, with nothing touching it; a push that is no larger than
        errors of sensors are is taken for one. The offset is one of joint torques, and stays over
        switches and recoveries. It is right everywhere for the sensors' share, and near this
        posture only for the share of a weight that the robot has not been told of: tell it its
        load, or tare again where the work is. Another ``load_...`` setting ends it.

        Args:
            arm: The arm.
            timeout: How long to wait [s].

        Returns:
            What is taken off, (n,) [Nm].

        Raises:
            TareRejected: If a controllet has the arm, it moves, or it feels too much; it is tared
                or not as before.
            LoopTimeout: If no answer came in time.
        """
        wait = seconds(timeout, TareRejected)
        return self._requests.wait(self.ask(arm), wait)

    def untare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> None:
        """Take nothing off any more; the arm has to hold.

        Raises:
            TareRejected: If a controllet has the arm; it is tared as before.
            LoopTimeout: If no answer came in time.
        """
        wait = seconds(timeout, TareRejected)
        self._requests.wait(self.ask(arm, undo=True), wait)

    def ask(self, arm: str, *, undo: bool = False) -> ArmRequest:
        """Ask for a tare, or for its end, and return at once; see :meth:`answer`."""
        return self._requests.ask(arm, np.array([0.0 if undo else 1.0]))

    def answer(self, request: ArmRequest) -> Vector | None:
        """Return what is taken off now, (n,) [Nm], or None while it is being measured.

        Raises:
            TareRejected: If it was refused, with the reason, or a newer request has replaced it.
        """
        return self._requests.answer(request)

    def withdraw(self, request: ArmRequest) -> str:
        """Give a tare up; return in words whether it still may happen."""
        return self._requests.withdraw(request)
