# SPDX-License-Identifier: Apache-2.0
"""Who is active in a running cell: lifecycle, switches, holds, recoveries."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from multipanda_py.cell_readout import CellReadout
from multipanda_py.config import CellConfig
from multipanda_py.exceptions import LoopTimeout, SwitchRejected
from multipanda_py.loop.events import Event
from multipanda_py.loop.mailbox import SwitchStatus, Word
from multipanda_py.loop.runner import InlineRunner
from multipanda_py.loop.switching import Strictness, plan_switch


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
class SwitchResult:
    """What a switch did.

    Attributes:
        activated: Instances that became active.
        deactivated: Instances that stopped.
        skipped: What a best-effort switch left out, and why.
        delay: From the request to the first cycle of the new laws [s].
        handed_over: What the arms were pressing with and go on with, or let go of.
    """

    activated: tuple[str, ...]
    deactivated: tuple[str, ...]
    skipped: tuple[str, ...]
    delay: float
    handed_over: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Say it in a sentence."""
        parts = [
            f"active: {', '.join(self.activated) or 'nothing new'}",
            f"deactivated: {', '.join(self.deactivated) or 'nothing'}",
            f"{self.delay * 1e3:.3f} ms from request to first cycle",
        ]
        parts += self.handed_over
        if self.skipped:
            parts.append(f"left out: {'; '.join(self.skipped)}")
        return "; ".join(parts)


class CellSwitching(CellReadout):
    """Change which controllets are active; a refusal changes nothing.

    The methods may be called from any thread. Nothing here waits for the loop except
    :meth:`switch`.

    Attributes:
        rejected: Counts refused requests, by what was refused: ``left target``, ``switch``.
    """

    def __init__(self, config: CellConfig) -> None:
        super().__init__(config)
        self.rejected: Counter[str] = Counter()
        self._lifecycle = {plan.name: "inactive" for plan in self.plans}
        self._lock = threading.RLock()

    def controllets(self) -> list[ControlletInfo]:
        """Return every controllet instance with its present state."""
        flags = self._box().active
        return [
            ControlletInfo(
                plan.name,
                plan.config.short_name,
                plan.config.type,
                plan.config.arms,
                "active" if flags[plan.index] else self._lifecycle[plan.name],
                plan.config.per_arm,
                plan.channels,
            )
            for plan in self.plans
        ]

    def set_lifecycle(self, name: str, state: str) -> None:
        """Load, configure or unload an instance, which makes it ready for a switch or not.

        Args:
            name: The instance.
            state: ``unloaded``, ``unconfigured`` or ``inactive``.

        Raises:
            SwitchRejected: If the instance is active, or is a hold.
        """
        plan = self.plan(name)
        if plan.is_hold and state != "inactive":
            raise SwitchRejected(f"{name}: hold is always ready")
        if self._box().active[plan.index]:
            raise SwitchRejected(f"{name}: is active; deactivate it first")
        self._lifecycle[name] = state

    def lifecycle(self, name: str) -> str:
        """Return the lifecycle state of an instance that is not active."""
        return self._lifecycle[self.plan(name).name]

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
            LoopTimeout: If the loop did not answer.
        """
        received = time.monotonic_ns()
        try:
            rule = _strictness(strictness)
            with self._lock:
                return self._switch(activate, deactivate, rule, timeout, received)
        except SwitchRejected:
            self.rejected["switch"] += 1
            raise

    def _switch(
        self,
        activate: Sequence[str],
        deactivate: Sequence[str],
        rule: Strictness,
        timeout: float,
        received: int,
    ) -> SwitchResult:
        box = self._box()
        for _ in range(3):  # the loop may have changed the active set after a fault
            epoch = box.words[Word.EPOCH]
            flags = [bool(flag) for flag in box.active]
            away = [name for name, state in self._lifecycle.items() if state != "inactive"]
            plan = plan_switch(self.plans, flags, activate, deactivate, rule, away)
            if not plan.activated and not plan.deactivated:
                return SwitchResult((), (), tuple(plan.skipped), 0.0)
            events = box.words[Word.EVENTS]
            number = box.switch.write(np.array([epoch, received, *plan.flags], dtype=np.float64))
            box.ring_bell()
            status = self._await_switch(number, timeout)
            if status is SwitchStatus.DONE:
                delay = (box.words[Word.SWITCH_NS] - received) * 1e-9
                said = box.events_since(events)[1]
                return SwitchResult(
                    tuple(plan.activated),
                    tuple(plan.deactivated),
                    tuple(plan.skipped),
                    delay,
                    tuple(e.text for e in said if e.event is Event.HANDED_OVER),
                )
            if status is SwitchStatus.FAILED:
                said = box.events_since(events)[1]
                reasons = [e.text for e in said if e.event is Event.SWITCH_FAILED]
                raise SwitchRejected("; ".join(reasons) or "activation failed")
        raise SwitchRejected("the active set keeps changing; see the loop's events")

    def _await_switch(self, number: int, timeout: float) -> SwitchStatus:
        box = self._box()
        if isinstance(self._runner, InlineRunner):
            self._runner.step(1)
        deadline = time.monotonic() + timeout
        while box.words[Word.SWITCH_ACK] != number:
            self.check()
            if time.monotonic() > deadline:
                raise LoopTimeout(f"the loop did not answer a switch within {timeout:g} s")
            time.sleep(1e-4)
        return SwitchStatus(box.words[Word.SWITCH_STATUS])

    def hold(self) -> SwitchResult:
        """Deactivate everything: every arm brakes and holds."""
        active = [name for name in self.active if not self.plan(name).is_hold]
        return self.switch(deactivate=active, strictness=Strictness.BEST_EFFORT)

    def recover(self, arms: Sequence[str] | None = None) -> tuple[str, ...]:
        """Clear latched faults; the arms hold the posture of now, and nothing else starts.

        Returns:
            Names of the arms that had a fault.
        """
        chosen = tuple(self.arms if arms is None else arms)
        for arm in chosen:
            self._arm(arm)
        faulted = tuple(arm for arm in chosen if self.state(arm).fault)
        if faulted:
            with self._lock:
                box = self._box()
                box.recover.write(np.array([float(arm in faulted) for arm in self.arms]))
                box.ring_bell()
        return faulted


def _strictness(rule: Strictness | str) -> Strictness:
    try:
        return Strictness[rule.upper()] if isinstance(rule, str) else Strictness(rule)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Strictness)
        raise SwitchRejected(f"strictness: got {rule!r}, allowed {names}") from None
