# SPDX-License-Identifier: Apache-2.0
"""Recovery of arms from faults, and tare of their external torques."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.arm_request import (
    LOOP_TIMEOUT,
    ArmRequest,
    ArmRequests,
    RequestKind,
    describe_withdrawal,
)
from multipanda_py.cell.connection import Connection, Counts, checked_timeout
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.exceptions import LoopTimeout, RecoveryFailed, TareRejected
from multipanda_py.realtime.events import Event, LoopEvent
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.state import Vector


class HoldReasons:
    """Reason why each arm holds, from the events of the loop."""

    def __init__(self, arms: Iterable[str]) -> None:
        self._reasons = dict.fromkeys(arms, "")

    def note(self, event: LoopEvent) -> None:
        """Process an event of the loop. Call this method with all events in order."""
        if not event.event.ends_laws:
            return
        text = f"{event.event.name.lower()}: {event.text}"
        for arm in [event.arm] if event.arm in self._reasons else list(self._reasons):
            self._reasons[arm] = text

    def reason(self, arm: str) -> str:
        """Return the reason of the last hold of an arm; empty if no event has caused one."""
        return self._reasons[arm]


RECOVERY_TIMEOUT = 20.0
"""Default timeout of a recovery: a real arm may need a new driver [s]."""


class PendingRecovery:
    """Requested recovery of arms. No method waits for the loop.

    Attributes:
        faults: Type of the fault of each arm before the recovery, by arm.
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

    def poll(self) -> tuple[str, ...] | None:
        """Return the names of the recovered arms; None until the loop has answered.

        Raises:
            RecoveryFailed: If an arm keeps its fault. All other arms hold.
            LoopTimeout: If an arm did not answer in time, or the loop does not run. The message
                states whether the request was withdrawn.
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
        stall_reason = recovery.loop_stall_reason()
        if waited > self._timeout or (waited > LOOP_TIMEOUT and stall_reason):
            open_arms = ", ".join(arm for arm in left if arm not in failed)
            known = "".join(f"; {arm} is still faulted: {text}" for arm, text in failed.items())
            raise LoopTimeout(
                f"no answer to the recovery of {open_arms} within {waited:.1f} s"
                f"{f' ({stall_reason})' if stall_reason else ''}; {self.cancel()}{known}"
            )
        return None

    def cancel(self) -> str:
        """Cancel the request, unless the loop has received it; return the outcome as text."""
        return self._recovery.cancel(self._number)


@dataclass
class _RecoveryRequest:
    flags: Vector  # 1 for each arm to recover, 0 for others.
    # Sequence number of the newest message that contains this request.
    last_message: int = 0


class Recovery:
    """Clear the latched faults of arms."""

    def __init__(self, names: CellNames, connection: Connection, reader: StateReader) -> None:
        self._names, self._connection, self._reader = names, connection, reader
        self._requests: dict[int, _RecoveryRequest] = {}

    def recover(
        self, arms: Sequence[str] | None = None, *, timeout: float = RECOVERY_TIMEOUT
    ) -> tuple[str, ...]:
        """Clear latched faults and wait until the arms hold at their present configuration.

        No controllet is activated again.

        Args:
            arms: Names of the arms; all arms by default.
            timeout: Maximum time to wait [s].

        Returns:
            Names of the recovered arms; empty if no arm had a fault.

        Raises:
            RecoveryFailed: If an arm keeps its fault. All other arms recover nevertheless.
            LoopTimeout: If an arm did not answer in time, or the loop does not run.
            UnknownName: If there is no such arm.
        """
        wait = checked_timeout(timeout, RecoveryFailed)
        while self._reader.stall_reason() and not self.loop_stall_reason():
            self._connection.pause()  # A single late cycle must not reject the request.
        pending = self.request(arms, wait)
        try:
            while (recovered := pending.poll()) is None:
                self._connection.pause()
        except KeyboardInterrupt:
            pending.cancel()
            raise
        return recovered

    def request(
        self, arms: Sequence[str] | None = None, timeout: float = RECOVERY_TIMEOUT
    ) -> PendingRecovery:
        """Request a recovery without waiting; ``poll`` of the result returns the outcome.

        Args:
            arms: Names of the arms; all arms by default.
            timeout: Maximum time until the arms hold [s].

        Raises:
            LoopTimeout: If the loop does not run.
            UnknownName: If there is no such arm.
        """
        wait = checked_timeout(timeout, RecoveryFailed)
        if stall_reason := self._reader.stall_reason():
            raise LoopTimeout(f"no arm was recovered: {stall_reason}")
        faults = self.faults(self._names.arms if arms is None else arms)
        events = self._connection.mailbox.event_count
        if not faults:
            return PendingRecovery(self, faults, 0, events, wait)
        flags = np.array([float(arm in faults) for arm in self._names.arms])
        with self._connection.lock:
            self._forget_taken()
            request = _RecoveryRequest(flags)
            number = self._post([request, *self._requests.values()])
            self._requests[number] = request
            return PendingRecovery(self, faults, number, events, wait)

    def cancel(self, number: int) -> str:
        """Cancel a request, unless the loop has received it; return the outcome as text."""
        connection = self._connection
        with connection.lock:
            self._forget_taken()
            request = self._requests.pop(number, None)
            if request is None:
                return describe_withdrawal(not number)
            slot = connection.mailbox.recover
            withdrawn = connection.withdraw(slot, request.last_message, "recovery")
            if withdrawn and self._requests:
                # One record holds the arms of all requests. Post those of the others again.
                self._post(list(self._requests.values()))
        return describe_withdrawal(withdrawn)

    def _post(self, requests: Sequence[_RecoveryRequest]) -> int:
        flags = np.max([request.flags for request in requests], axis=0)
        number = self._connection.post(self._connection.mailbox.recover, flags)
        for request in requests:
            request.last_message = number
        return number

    def _forget_taken(self) -> None:
        taken = self._connection.mailbox.recover.taken
        self._requests = {n: one for n, one in self._requests.items() if one.last_message > taken}

    def faults(self, arms: Sequence[str]) -> dict[str, str]:
        """Return the types of the latched faults, by arm; arms without a fault are left out."""
        faults = {arm: self._reader.state(arm).fault for arm in arms}
        return {arm: fault for arm, fault in faults.items() if fault}

    def reasons(self, number: int, events: int) -> dict[str, str]:
        """Return the reasons why arms are still faulted after a request, by arm.

        The result is empty until the loop has received the request.

        Args:
            number: Sequence number of the request.
            events: Number of events of the loop before the request.
        """
        box = self._connection.mailbox
        if not self._is_answered(box, number):
            return {}
        reasons: dict[str, str] = {}
        for event in box.events_since(events)[1]:
            if event.event.is_fault:
                reasons[event.arm] = event.text
            elif event.event is Event.RECOVERED:
                reasons.pop(event.arm, None)
        return reasons

    def loop_stall_reason(self) -> str:
        """Return the reason why the loop cannot answer (paused or blocked); empty if it can."""
        if self._connection.cycle_age() < LOOP_TIMEOUT and not self._connection.mailbox.is_paused:
            return ""
        return self._reader.stall_reason()

    def _is_answered(self, box: Mailbox, number: int) -> bool:
        return box.recover.taken >= number


TARE_TIMEOUT = 3.0
"""Default timeout of a tare [s], longer than the loop needs for the measurement."""
_TARE_KIND = RequestKind(
    "tare",
    TareRejected,
    (Event.TARED, Event.TARE_REFUSED),
    lambda box: (box.tares, box.tare_answers),
)


class Tare:
    """Subtraction of an offset, measured without contact, from the external torques of arms."""

    def __init__(self, names: CellNames, connection: Connection, counts: Counts) -> None:
        self._names = names
        self._requests = ArmRequests(_TARE_KIND, names, connection, counts)

    def offset(self, arm: str) -> Vector:
        """Return the offset subtracted from the external torques of an arm, (n,) [Nm].

        Raises:
            UnknownName: If there is no such arm.
        """
        offset = self._requests.newest(arm)
        if offset is not None:
            return offset
        return np.zeros(self._names.arm_config(arm).robot.n_joints)

    def tare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> Vector:
        """Measure the external torques of an arm for 0.5 s and subtract their mean from now on.

        The arm must be on hold, at rest and without contact: a contact force below the sensor
        error is not detected. Do not tare a payload; set the load of the robot instead. The offset
        ends with a change of a ``load_...`` setting.

        Args:
            arm: Name of the arm.
            timeout: Maximum time to wait [s].

        Returns:
            Measured offset, (n,) [Nm].

        Raises:
            TareRejected: If a controllet other than ``hold`` controls the arm, the arm moves, or
                its external torques are too large. Then the offset does not change.
            LoopTimeout: If no answer came in time.
        """
        wait = checked_timeout(timeout, TareRejected)
        return self._requests.wait(self.request(arm), wait)

    def untare(self, arm: str, *, timeout: float = TARE_TIMEOUT) -> None:
        """Set the offset of the external torques of an arm on hold to zero.

        Args:
            arm: Name of the arm.
            timeout: Maximum time to wait [s].

        Raises:
            TareRejected: If a controllet other than ``hold`` controls the arm. Then the offset
                does not change.
            LoopTimeout: If no answer came in time.
        """
        wait = checked_timeout(timeout, TareRejected)
        self._requests.wait(self.request(arm, undo=True), wait)

    def request(self, arm: str, *, undo: bool = False) -> ArmRequest:
        """Request :meth:`tare`, or :meth:`untare` if ``undo`` is True, without waiting.

        See :meth:`answer`.
        """
        return self._requests.request(arm, np.array([0.0 if undo else 1.0]))

    def answer(self, request: ArmRequest) -> Vector | None:
        """Return the new offset, (n,) [Nm]; None until the loop has answered.

        Raises:
            TareRejected: If the loop refused the request, or a newer request replaced it.
        """
        return self._requests.answer(request)

    def cancel(self, request: ArmRequest) -> str:
        """Cancel a request, unless the loop has received it; return the outcome as text."""
        return self._requests.cancel(request)
