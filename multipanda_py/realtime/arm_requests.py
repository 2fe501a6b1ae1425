# SPDX-License-Identifier: Apache-2.0
"""Requests to recover arms, and to change the settings of their robots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from multipanda_py.backend import Backend
from multipanda_py.parameters import Settings, live
from multipanda_py.realtime.arm import Arm
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.ownership import Ownership
from multipanda_py.realtime.plugin_errors import error_text, pass_interrupt
from multipanda_py.realtime.shared_memory import Mailbox
from multipanda_py.realtime.tare import Tares
from multipanda_py.robots.inertial import Load, load_of
from multipanda_py.state import Vector

_BUSY_MESSAGE = "has a pending change of its robot settings; try again when it is completed"


class ArmSettings:
    """Handler of requests to change robot settings, only under hold.

    A pending request blocks switches of its arm. A backend may have to stop executing torques for
    a while. Hold then restarts from the measured state.

    Args:
        arms: Arms in the order of the cell.
        backend_of: Backend of each arm, by index.
        mailbox: Shared memory with requests and responses.
        tares: Tares of the arms; a new load clears the tare of an arm.

    Attributes:
        pending: Number of the request and settings, by the index of the arm, while not completed.
        interrupted: Indices of arms whose hold restarts when they execute torques again.

    Thread: control.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        backend_of: Mapping[int, Backend],
        mailbox: Mailbox,
        tares: Tares,
    ) -> None:
        self._arms, self._backend_of, self._mailbox = arms, backend_of, mailbox
        self._tares = tares
        self._current = [backend_of[arm.index].settings[arm.index] for arm in arms]
        self.interrupted: set[int] = set()
        self.pending: dict[int, tuple[int, Settings]] = {}

    def receive(self, now_ns: int) -> None:
        """Start new requests."""
        for arm, slot in zip(self._arms, self._mailbox.settings):
            record = slot.pop()
            if record is None:
                continue
            settings = self._current[arm.index].decode(record)
            reason = self._start(arm, slot.last_read, settings)
            if reason:
                self._answer(arm, slot.last_read, reason, settings, now_ns)

    def _start(self, arm: Arm, number: int, settings: Settings) -> str:
        """Send settings to the backend; return why this is impossible, or an empty string."""
        name, owner = arm.state.name, arm.owner.spec
        if arm.busy:
            return f"{name} {arm.busy}"
        if not owner.is_hold:
            return (
                f"{name} follows {owner.name}, and a robot accepts settings only at "
                f"rest: deactivate {owner.name} first"
            )
        try:
            backend = self._backend_of[arm.index]
            backend.configure(arm.index, settings)
            if not backend.answers_configure(arm.index):
                return (
                    f"{name}: configure of backend {type(backend).__name__} causes no response. "
                    "Call super().configure(arm, settings) in it, or override settings_answers"
                )
        except BaseException as error:
            pass_interrupt(error)
            return f"{name}: {error_text(error)}"
        self.pending[arm.index] = number, settings
        arm.busy = _BUSY_MESSAGE
        return ""

    def forward_responses(self, now_ns: int) -> None:
        """Forward the responses of the backends, and restart holds."""
        for backend in {self._backend_of[index] for index in self.pending}:
            for index, reason in self._answers_of(backend):
                if index not in self.pending:
                    continue
                number, settings = self.pending.pop(index)
                arm = self._arms[index]
                arm.busy = ""
                self._answer(arm, number, reason, settings, now_ns)
        for index in self.pending:
            if not self._backend_of[index].is_ready(index):
                self.interrupted.add(index)
        for index in tuple(self.interrupted - self.pending.keys()):
            if self._backend_of[index].is_ready(index):
                self.interrupted.discard(index)
                self._arms[index].restart_hold()

    def _answers_of(self, backend: Backend) -> Sequence[tuple[int, str]]:
        try:
            return backend.settings_answers()
        except BaseException as error:
            pass_interrupt(error)
            reason = error_text(error)
            return [(index, reason) for index in backend.arms if index in self.pending]

    def _answer(self, arm: Arm, number: int, reason: str, settings: Settings, now_ns: int) -> None:
        current = self._current[arm.index]
        if reason:
            text, event = reason, Event.SETTINGS_REFUSED
        else:
            names = [spec.name for spec in live(type(settings))]
            changed = [n for n in names if getattr(settings, n) != getattr(current, n)]
            text, event = f"changed: {', '.join(changed) or 'nothing'}", Event.SETTINGS_APPLIED
            load = load_of(settings)
            if not _is_same(load, load_of(current)):
                self._tares.forget(arm.index, "the load of the robot has changed", now_ns)
            current = self._current[arm.index] = settings
            arm.set_load(load)
        self._mailbox.report(event, now_ns, arm.index, -1, text)
        head = np.array([number, not reason], dtype=np.float64)
        self._mailbox.settings_answers[arm.index].write(np.concatenate([head, current.encode()]))


def _is_same(load: Load, other: Load) -> bool:
    return (
        load.mass == other.mass
        and np.array_equal(load.com, other.com)
        and np.array_equal(load.inertia, other.inertia)
    )


class Recoveries:
    """Handler of recovery requests; a fault is cleared when the backend reports the arm as ready.

    Args:
        arms: All arms of the cell.
        backend_of: Backend of each arm, by index.
        ownership: Assignment of arms to controllets.
        mailbox: Shared memory for events.

    Attributes:
        pending: Indices of arms whose requested recovery is not completed yet.

    Thread: control.
    """

    def __init__(
        self,
        arms: Sequence[Arm],
        backend_of: Mapping[int, Backend],
        ownership: Ownership,
        mailbox: Mailbox,
    ) -> None:
        self._arms, self._backend_of = arms, backend_of
        self._owners, self._mailbox = ownership, mailbox
        self.pending: set[int] = set()

    def start(self, is_requested: Vector, now_ns: int) -> None:
        """Request the recovery of arms that have a fault.

        Args:
            is_requested: Flag of each arm of the cell; arms without a fault are skipped.
            now_ns: Time of the cycle [ns].
        """
        for arm, flag in zip(self._arms, is_requested.tolist()):
            if not flag or not arm.fault:
                continue
            try:
                self._backend_of[arm.index].recover(arm.index)
            except BaseException as error:
                pass_interrupt(error)
                self.stopped(arm.index, error_text(error), now_ns)
            else:
                self.pending.add(arm.index)

    def stopped(self, index: int, text: str, now_ns: int) -> None:
        """Latch the fault of an arm that no longer executes torques, and cancel its recovery.

        Args:
            index: Index of the arm in the cell.
            text: Reason, for the report.
            now_ns: Time of the cycle [ns].
        """
        arm = self._arms[index]
        self.pending.discard(index)
        self._owners.fail(arm.owner, Event.ARM_STOPPED, text, now_ns, (arm,))

    def clear_faults(self, now_ns: int) -> None:
        """Clear the faults of arms that are ready again; they hold their position."""
        for index in tuple(self.pending):
            backend = self._backend_of[index]
            if backend.is_ready(index):
                self.pending.discard(index)
                was = self._owners.recover(self._arms[index])
                ended = self._owners.forces.ended([index])
                text = "; ".join(filter(None, (f"{was.name.lower()} cleared; holding", ended)))
                # The recovery has also connected the robot, which may cause warnings.
                if backend.warnings:
                    text = f"{text}; but {'; '.join(backend.warnings)}"
                    backend.warnings.clear()
                self._mailbox.report(Event.RECOVERED, now_ns, index, -1, text)
