# SPDX-License-Identifier: Apache-2.0
"""Active controllets of a running cell: lifecycle, switches and holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multipanda_py.cell.connection import Connection, Counts, checked_timeout
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.pending_switch import PendingSwitch, SharedSwitchState
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.cell.switch_planning import Strictness, SwitchResult
from multipanda_py.exceptions import SwitchRejected


@dataclass(frozen=True)
class ControlletInfo:
    """Description of a controllet instance.

    Attributes:
        name: Name in the cell, such as ``left/cartesian_impedance_controller``.
        short_name: Name without the arm, such as ``cartesian_impedance_controller``.
        type: Type of the controllet.
        arms: Names of the arms that it controls while it is active.
        state: ``unloaded``, ``unconfigured``, ``inactive`` or ``active``.
        per_arm: True if every arm has an instance, whose ``name`` begins with the name of the arm.
        channels: Names of the channels (kinds of targets) that it accepts.
    """

    name: str
    short_name: str
    type: str
    arms: tuple[str, ...]
    state: str
    per_arm: bool
    channels: tuple[str, ...]


class Switcher:
    """Activate and deactivate controllets.

    Thread: any. Only :meth:`switch` and :meth:`hold` wait for the loop.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection, self._counts = names, connection, counts
        self._lifecycle = {spec.name: "inactive" for spec in names.specs}
        self._resting: set[str] = set()
        self._shared_state = SharedSwitchState(
            names.specs,
            connection,
            counts,
            self._lifecycle,
            self._resting,
            reader.state,
            reader.stall_reason,
        )

    def controllets(self) -> list[ControlletInfo]:
        """Return every controllet instance with its present state."""
        flags = self._connection.mailbox.active
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
            for spec in self._names.specs
        ]

    def set_lifecycle(self, name: str, state: str) -> None:
        """Set the lifecycle state of a controllet that is not active.

        Args:
            name: Name of the controllet.
            state: ``unloaded``, ``unconfigured`` or ``inactive``. Only an ``inactive`` controllet
                can be activated.

        Raises:
            SwitchRejected: If the controllet is active, or is a ``hold``.
        """
        spec = self._names.spec(name)
        if spec.is_hold and state != "inactive":
            raise SwitchRejected(f"{name}: hold cannot be unloaded or unconfigured")
        if self._connection.mailbox.active[spec.index]:
            raise SwitchRejected(f"{name}: is active. Deactivate it first")
        self._lifecycle[name] = state

    def lifecycle(self, name: str) -> str:
        """Return the state ``unloaded``, ``unconfigured`` or ``inactive`` of a controllet.

        An active controllet counts as ``inactive``.
        """
        return self._lifecycle[self._names.spec(name).name]

    def request_inactive(self, *arms: str, by: str = "") -> PendingSwitch:
        """Deactivate the controllets of arms, and refuse new ones until :meth:`activate_arm`.

        Call ``poll`` of the result until the arms hold. The refusal begins at once and remains if
        the deactivation fails.

        Raises:
            UnknownName: If there is no such arm.
        """
        specs = [spec for arm in arms for spec in self._names.specs_of(arm)]
        laws = dict.fromkeys(spec.name for spec in specs if not spec.is_hold)
        self._resting.update(arms)
        reason = f"a request to set {' and '.join(arms)} inactive"
        return PendingSwitch(
            self._shared_state, (), tuple(laws), Strictness.AUTO, 1.0, reason_text=reason, by=by
        )

    def activate_arm(self, arm: str) -> None:
        """Permit controllets on an arm again after :meth:`request_inactive`.

        Active controllets do not change.

        Raises:
            UnknownName: If there is no such arm.
        """
        self._names.arm_index(arm)
        self._resting.discard(arm)

    def is_inactive(self, arm: str) -> bool:
        """Return True while an arm refuses all controllets except ``hold``.

        :meth:`request_inactive` begins this state, and :meth:`activate_arm` ends it.
        """
        return arm in self._resting

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> SwitchResult:
        """Change the active controllets of any set of arms between two cycles.

        Args:
            activate: Names of controllets to activate.
            deactivate: Names of controllets to deactivate. Arms without a controllet hold.
            strictness: Treatment of requests that cannot be fulfilled: a :class:`.Strictness`, or
                its name in lower case.
            timeout: Maximum time for the answer of the loop [s], with ``FORCE_AUTO`` including the
                time for arms to come to rest.
            by: Name of the requesting client, for events.

        Raises:
            SwitchRejected: If the request cannot be fulfilled. Active controllets do not change,
                except those that the message names.
            LoopTimeout: If the loop did not answer in time. The message states whether the request
                was withdrawn.
        """
        pending = self.request_switch(activate, deactivate, strictness, timeout, by)
        return self._await_switch(pending)

    def request_switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> PendingSwitch:
        """Create a request for :meth:`switch`. The first call of its ``poll()`` sends it.

        Raises:
            SwitchRejected: If ``strictness`` or ``timeout`` is invalid.
        """
        try:
            rule, wait = _strictness(strictness), checked_timeout(timeout, SwitchRejected)
        except SwitchRejected:
            self._counts.rejected["switch"] += 1
            raise
        return PendingSwitch(self._shared_state, activate, deactivate, rule, wait, by=by)

    def hold(self, timeout: float = 1.0, by: str = "") -> SwitchResult:
        """Deactivate all controllets: every arm brakes and holds.

        The call withdraws all pending switches. A blocked loop executes it as soon as it runs
        again, even after the timeout.

        Args:
            timeout: Maximum time for the answer of the loop [s].
            by: Name of the requesting client, for events.

        Raises:
            LoopTimeout: If the loop did not answer in time.
            SwitchRejected: If ``timeout`` is not a valid time. The arms hold nevertheless.
        """
        return self._await_switch(self.request_hold(timeout, by))

    def request_hold(self, timeout: float = 1.0, by: str = "") -> PendingSwitch:
        """Create a request for :meth:`hold`. The first call of its ``poll()`` sends it."""
        try:
            return self._stop(checked_timeout(timeout, SwitchRejected), by)
        except SwitchRejected:
            self._stop(0.0, by).poll()  # The arms must stop even if the timeout is invalid.
            raise

    def abort_reason(self, name: str, since: float) -> str:
        """Return the reason why a controllet was deactivated by a switch after a time.

        Args:
            name: Name of a controllet that is no longer active.
            since: Time at which it was active, from ``time.monotonic`` [s].

        Returns:
            Reason of the last such switch. Empty if the loop deactivated the controllet, for
                example after a fault; see :meth:`.Cell.events`.
        """
        time, reason = self._shared_state.deactivations.get(name, (since, ""))
        return reason if time > since else ""

    def _stop(self, timeout: float, by: str) -> PendingSwitch:
        rule = Strictness.BEST_EFFORT
        return PendingSwitch(self._shared_state, (), (), rule, timeout, is_stop=True, by=by)

    def _await_switch(self, pending: PendingSwitch) -> SwitchResult:
        while (result := pending.poll()) is None:
            self._connection.pause()
        return result


def _strictness(rule: Strictness | str) -> Strictness:
    try:
        return Strictness[rule.upper()] if isinstance(rule, str) else Strictness(rule)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Strictness)
        raise SwitchRejected(f"strictness: got {rule!r}, allowed {names}") from None
