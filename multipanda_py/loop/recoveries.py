# SPDX-License-Identifier: Apache-2.0
"""Recoveries: arms with a fault that are asked for, and made ready by their backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multipanda_py.backend import Backend
from multipanda_py.loop.arm import Arm
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import Mailbox
from multipanda_py.loop.ownership import Ownership
from multipanda_py.loop.plugin_errors import error_text, pass_interrupt
from multipanda_py.state import Vector


class Recoveries:
    """Ask backends to make arms ready, which may take many cycles, and clear their faults then.

    Args:
        arms: All of the cell.
        backend_of: What moves an arm, by its index.
        ownership: Who owns which arm.
        mailbox: Where events go.

    Attributes:
        pending: Indices of arms that are not ready yet.

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

    def begin(self, wanted: Vector, now_ns: int) -> None:
        """Ask for the arms with a fault among those that are flagged."""
        for arm, flag in zip(self._arms, wanted.tolist()):
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
        """Note that an arm executes no torques any more, and why: what was asked is void."""
        arm = self._arms[index]
        self.pending.discard(index)
        self._owners.fail(arm.owner, Event.ARM_STOPPED, text, now_ns, (arm,))

    def look(self, now_ns: int) -> None:
        """Clear the fault of arms that are ready again; they hold where they are."""
        for index in tuple(self.pending):
            backend = self._backend_of[index]
            if backend.is_ready(index):
                self.pending.discard(index)
                was = self._owners.recover(self._arms[index])
                ended = self._owners.forces.ended([index])
                text = "; ".join(filter(None, (f"{was.name.lower()} cleared; holding", ended)))
                if backend.warnings:  # of a robot that has been connected only now
                    text = f"{text}; but {'; '.join(backend.warnings)}"
                    backend.warnings.clear()
                self._mailbox.report(Event.RECOVERED, now_ns, index, -1, text)
