# SPDX-License-Identifier: Apache-2.0
"""Who is active in a running cell: lifecycle, switches, holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multipanda_py.cell.connection import Connection, Counts, seconds
from multipanda_py.cell.names import CellNames
from multipanda_py.cell.pending_switch import PendingSwitch, SwitchTurn
from multipanda_py.cell.state_reader import StateReader
from multipanda_py.cell.switch_planning import Strictness, SwitchResult
from multipanda_py.exceptions import SwitchRejected


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


class Switcher:
    """Change which controllets are active; a refusal changes nothing.

    The methods may be called from any thread. Nothing here waits for the loop except
    :meth:`switch` and :meth:`hold`, which hold no lock meanwhile.

    Args:
        names: Of the cell's arms and instances.
        connection: To its loop.
        reader: Of its states.
        counts: Where refusals and withdrawals go.
    """

    def __init__(
        self, names: CellNames, connection: Connection, reader: StateReader, counts: Counts
    ) -> None:
        self._names, self._connection, self._counts = names, connection, counts
        self._lifecycle = {spec.name: "inactive" for spec in names.specs}
        self._resting: set[str] = set()
        self._turn = SwitchTurn(
            names.specs,
            connection,
            counts,
            self._lifecycle,
            self._resting,
            reader.state,
            reader.silence_reason,
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
        """Load, configure or unload an instance, which makes it ready for a switch or not.

        Args:
            name: The instance.
            state: ``unloaded``, ``unconfigured`` or ``inactive``.

        Raises:
            SwitchRejected: If the instance is active, or is a hold.
        """
        spec = self._names.spec(name)
        if spec.is_hold and state != "inactive":
            raise SwitchRejected(f"{name}: hold is always ready")
        if self._connection.mailbox.active[spec.index]:
            raise SwitchRejected(f"{name}: is active; deactivate it first")
        self._lifecycle[name] = state

    def lifecycle(self, name: str) -> str:
        """Return the lifecycle state of an instance that is not active."""
        return self._lifecycle[self._names.spec(name).name]

    def ask_rest(self, *arms: str, by: str = "") -> PendingSwitch:
        """Let arms take no law but hold until :meth:`wake`; its ``look`` says when they hold.

        Other arms of their laws hold, too. A switch that is refused or comes too late leaves the
        arms at rest nevertheless: nothing can be activated on them, but what is active goes on.

        Raises:
            UnknownName: If an arm does not exist.
        """
        specs = [spec for arm in arms for spec in self._names.specs_of(arm)]
        laws = dict.fromkeys(spec.name for spec in specs if not spec.is_hold)
        self._resting.update(arms)
        why = f"a request that {' and '.join(arms)} be inactive"
        return PendingSwitch(self._turn, (), tuple(laws), Strictness.AUTO, 1.0, why=why, by=by)

    def wake(self, arm: str) -> None:
        """Let an arm take laws again; what it does is not changed.

        Raises:
            UnknownName: If the arm does not exist.
        """
        self._names.arm_index(arm)
        self._resting.discard(arm)

    def is_resting(self, arm: str) -> bool:
        """Return whether an arm takes no law but hold."""
        return arm in self._resting

    def switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> SwitchResult:
        """Change the active controllets at one cycle boundary, over any set of arms.

        Args:
            activate: Instances to activate.
            deactivate: Instances to deactivate; arms left over hold.
            strictness: Or its name in lower case.
            timeout: How long the loop may take [s], and with ``FORCE_AUTO`` arms to come to rest
                that are to be commanded something else.
            by: Name of the client that requests it, for the report of the switch.

        Raises:
            SwitchRejected: If the request cannot be met; nothing has changed, but for laws that
                were stopped for the sake of rest: the message names them.
            LoopTimeout: If the loop did not answer in time. The request is withdrawn then; if
                the loop has begun it already, the message says that it is pending.
        """
        pending = self.ask_switch(activate, deactivate, strictness, timeout, by)
        return self._await_switch(pending)

    def ask_switch(
        self,
        activate: Sequence[str] = (),
        deactivate: Sequence[str] = (),
        strictness: Strictness | str = Strictness.STRICT,
        timeout: float = 1.0,
        by: str = "",
    ) -> PendingSwitch:
        """Ask for a switch and return at once; its ``look`` answers, and the first one asks.

        See :meth:`switch`.

        Raises:
            SwitchRejected: If there is no such strictness, or ``timeout`` is no time.
        """
        try:
            rule, wait = _strictness(strictness), seconds(timeout, SwitchRejected)
        except SwitchRejected:
            self._counts.rejected["switch"] += 1
            raise
        return PendingSwitch(self._turn, activate, deactivate, rule, wait, by=by)

    def hold(self, timeout: float = 1.0, by: str = "") -> SwitchResult:
        """Deactivate everything: every arm brakes and holds.

        A switch that is not answered yet is withdrawn. A stop is not: a loop that stands still
        executes it as soon as it runs again, and no other switch is accepted before.

        Raises:
            LoopTimeout: If the loop did not answer within ``timeout`` [s].
            SwitchRejected: If ``timeout`` is no time. Arms hold all the same.
        """
        return self._await_switch(self.ask_hold(timeout, by))

    def ask_hold(self, timeout: float = 1.0, by: str = "") -> PendingSwitch:
        """Ask for :meth:`hold` and return at once; its ``look`` answers.

        The loop is told by the first ``look``, not before.
        """
        try:
            return self._stop(seconds(timeout, SwitchRejected), by)
        except SwitchRejected:
            self._stop(0.0, by).look()  # arms must stop even if the time is not valid
            raise

    def ended_by(self, name: str, since: float) -> str:
        """Return what has ended a controllet, in words.

        Args:
            name: Of an instance that is not active any more.
            since: When it was, of time.monotonic [s].

        Returns:
            The switch that was asked for since then; empty if there was none, and the loop has
            ended it by itself: its events say why.
        """
        when, reason = self._turn.ended.get(name, (since, ""))
        return reason if when > since else ""

    def _stop(self, timeout: float, by: str) -> PendingSwitch:
        rule = Strictness.BEST_EFFORT
        return PendingSwitch(self._turn, (), (), rule, timeout, is_stop=True, by=by)

    def _await_switch(self, pending: PendingSwitch) -> SwitchResult:
        while (result := pending.look()) is None:
            self._connection.pause()
        return result


def _strictness(rule: Strictness | str) -> Strictness:
    try:
        return Strictness[rule.upper()] if isinstance(rule, str) else Strictness(rule)
    except (KeyError, ValueError):
        names = ", ".join(known.name.lower() for known in Strictness)
        raise SwitchRejected(f"strictness: got {rule!r}, allowed {names}") from None
