# SPDX-License-Identifier: Apache-2.0
"""Who is active in a running cell: lifecycle, switches, holds, recoveries."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.cell.pending_switch import PendingSwitch, SwitchResult
from multipanda_py.cell.readout import CellReadout
from multipanda_py.cell.switch_planning import Strictness
from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import SwitchRejected
from multipanda_py.loop.mailbox import Slot
from multipanda_py.loop.runner import InlineRunner


@dataclass(frozen=True)
class ControlletInfo:
    """What is known of a controllet instance.

    Attributes:
        name: Name in the cell, such as ``left/cartesian_impedance_controller``.
        short_name: Name in its own namespace.
        type: The control law.
        arms: Arms it owns while active.
        state: ``unloaded``, ``unconfigured``, ``inactive`` or ``active``.
        per_arm: Whether it lives in its arm's namespace.
        channels: Kinds of targets it takes.
    """

    name: str
    short_name: str
    type: str
    arms: tuple[str, ...]
    state: str
    per_arm: bool
    channels: tuple[str, ...]


@dataclass(frozen=True)
class RecoveryRequest:
    """A recovery that the loop has been asked for.

    Attributes:
        arms: Arms that had a fault.
        number: Of the record.
    """

    arms: tuple[str, ...]
    number: int


class CellSwitching(CellReadout):
    """Change which controllets are active; a refusal changes nothing.

    The methods may be called from any thread. Nothing here waits for the loop except
    :meth:`switch` and :meth:`hold`, which hold no lock meanwhile.

    Attributes:
        rejected: Counts refused requests, by what was refused: ``left target``, ``switch``.
        withdrawn: Counts requests that were given up before the loop took them: ``switch``.
    """

    def __init__(self, config: CellConfig) -> None:
        super().__init__(config)
        self.rejected: Counter[str] = Counter()
        self.withdrawn: Counter[str] = Counter()
        self._open_switch: PendingSwitch | None = None
        self._stop_number = 0
        self._lifecycle = {spec.name: "inactive" for spec in self.specs}
        self._lock = threading.RLock()

    def controllets(self) -> list[ControlletInfo]:
        """Return every controllet instance with its present state."""
        flags = self._box().active
        return [
            ControlletInfo(
                spec.name,
                spec.config.short_name,
                spec.config.type,
                spec.config.arms,
                "active" if flags[spec.index] else self._lifecycle[spec.name],
                spec.config.per_arm,
                spec.channels,
            )
            for spec in self.specs
        ]

    def set_lifecycle(self, name: str, state: str) -> None:
        """Load, configure or unload an instance, which makes it ready for a switch or not.

        Args:
            name: The instance.
            state: ``unloaded``, ``unconfigured`` or ``inactive``.

        Raises:
            SwitchRejected: If the instance is active, or is a hold.
        """
        spec = self.spec(name)
        if spec.is_hold and state != "inactive":
            raise SwitchRejected(f"{name}: hold is always ready")
        if self._box().active[spec.index]:
            raise SwitchRejected(f"{name}: is active; deactivate it first")
        self._lifecycle[name] = state

    def lifecycle(self, name: str) -> str:
        """Return the lifecycle state of an instance that is not active."""
        return self._lifecycle[self.spec(name).name]

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
    ) -> SwitchResult:
        """Change the active controllets at one cycle boundary, over any set of arms.

        Args:
            activate: Instances to activate.
            deactivate: Instances to deactivate; arms left over hold.
            strictness: Or its name in lower case.
            timeout: How long the loop may take [s].

        Raises:
            SwitchRejected: If the request cannot be met; nothing has changed.
            LoopTimeout: If the loop did not answer in time. The request is withdrawn then; if
                the loop has begun it already, the message says that it is pending.
        """
        pending = self.ask_switch(activate, deactivate, strictness, timeout)
        return self._await_switch(pending)

    def ask_switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
    ) -> PendingSwitch:
        """Ask for a switch and return at once; its ``look`` answers. See :meth:`switch`.

        Raises:
            SwitchRejected: If there is no such strictness.
        """
        try:
            rule = _strictness(strictness)
        except SwitchRejected:
            self.rejected["switch"] += 1
            raise
        return PendingSwitch(self, activate, deactivate, rule, timeout)

    def hold(self, timeout: float = 1.0) -> SwitchResult:
        """Deactivate everything: every arm brakes and holds.

        A switch that is not answered yet is withdrawn. A stop is not: a loop that stands still
        executes it as soon as it runs again, and no other switch is accepted before.

        Raises:
            LoopTimeout: If the loop did not answer within ``timeout`` [s].
        """
        return self._await_switch(self.ask_hold(timeout))

    def ask_hold(self, timeout: float = 1.0) -> PendingSwitch:
        """Ask for :meth:`hold` and return at once; its ``look`` answers."""
        return PendingSwitch(self, (), (), Strictness.BEST_EFFORT, timeout, is_stop=True)

    def _await_switch(self, pending: PendingSwitch) -> SwitchResult:
        while (result := pending.look()) is None:
            if isinstance(self._runner, InlineRunner):
                self._runner.step(1)
            else:
                self.check()
                time.sleep(1e-4)
        return result

    def recover(self, arms: Sequence[str] | None = None) -> tuple[str, ...]:
        """Clear latched faults; the arms hold the posture of now, and nothing else starts.

        Returns:
            Names of the arms that had a fault.
        """
        return self.ask_recovery(arms).arms

    def ask_recovery(self, arms: Sequence[str] | None = None) -> RecoveryRequest:
        """Do as :meth:`recover`; what is returned can be withdrawn."""
        chosen = tuple(self.arms if arms is None else arms)
        for arm in chosen:
            self._arm(arm)
        faulted = tuple(arm for arm in chosen if self.state(arm).fault)
        number = 0
        if faulted:
            with self._lock:
                box = self._box()
                number = box.recover.write(np.array([float(arm in faulted) for arm in self.arms]))
                box.ring_bell()
        return RecoveryRequest(faulted, number)

    def withdraw_recovery(self, request: RecoveryRequest) -> bool:
        """Give a recovery up; return whether it is certain that it will not happen."""
        return not request.arms or self._withdraw("recovery", self._box().recover, request.number)

    def _withdraw(self, what: str, slot: Slot, number: int) -> bool:
        """Make a request void that nobody waits for; return whether that came in time."""
        with self._lock:
            done = slot.withdraw(number)
        self.withdrawn[what] += done
        return done


def _strictness(rule: Strictness | str) -> Strictness:
    try:
        return Strictness[rule.upper()] if isinstance(rule, str) else Strictness(rule)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Strictness)
        raise SwitchRejected(f"strictness: got {rule!r}, allowed {names}") from None
