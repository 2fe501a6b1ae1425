# SPDX-License-Identifier: Apache-2.0
"""Requests to change the active controllets, which the loop executes one at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from multipanda_py.cell.connection import Connection, Counts
from multipanda_py.cell.switch_planning import (
    Strictness,
    SwitchPlan,
    SwitchResult,
    moving_arms,
    not_at_rest,
    only_stops,
    plan_switch,
)
from multipanda_py.config.instance_spec import InstanceSpec
from multipanda_py.exceptions import LoopTimeout, SwitchRejected
from multipanda_py.realtime.events import Event
from multipanda_py.realtime.ownership import MAX_REST_SPEED, SETTLING_TIME
from multipanda_py.realtime.shared_memory import ANY_EPOCH, SharedFlag, SwitchStatus, reason_record
from multipanda_py.state import ArmSnapshot

OWNER_DESCRIPTION = "the program that owns the cell"
_MAX_TRIES = 3  # Maximum number of times that one switch is sent to the loop.
_SETTLED_TIME = SETTLING_TIME + 0.1
"""Time without commanded motion after which an arm counts as settled for a switch [s]. The loop
requires a shorter time, so it does not refuse the switch for lack of rest."""
ABANDON_TIME = 1.0
"""Time from the deadline until a switch that no client polls is withdrawn [s]."""


class PendingSwitch:
    """Request to change the active controllets. No method waits for the loop.

    A request is sent after the answer to the previous one. A stop of all arms is sent at once and
    withdraws all other requests. ``FORCE_AUTO`` first stops arms that must be at rest.

    Arguments are those of :meth:`.Switcher.switch`. ``reason_text`` is the reason of the switch,
    for events.

    Attributes:
        deadline: Time at which the timeout ends [s], CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        shared: SharedSwitchState,
        activate: Sequence[str],
        deactivate: Sequence[str],
        strictness: Strictness,
        timeout: float,
        is_stop: bool = False,
        reason_text: str = "",
        by: str = "",
    ) -> None:
        self._shared, self._box = shared, shared.connection.mailbox
        self._activate, self._deactivate, self._strictness = (
            tuple(activate),
            tuple(deactivate),
            strictness,
        )
        self._timeout, self._is_stop, self._reason_text, self._by = (
            timeout,
            is_stop,
            reason_text,
            by,
        )
        self._requested_ns = time.monotonic_ns()
        self.deadline = time.monotonic() + timeout
        self._tries = self._number = self._events = 0
        self._plan = SwitchPlan([])
        self._answer: tuple[SwitchStatus, int] | None = None
        self._overtaken = self._brakes = False
        shared.stop_count += is_stop
        self._stops = shared.stop_count
        self._rested: dict[str, None] = {}
        self._still_since: dict[str, float] = {}
        self._stopped: list[str] = []

    def poll(self) -> SwitchResult | None:
        """Send the request once no other switch is pending, and return its result.

        Call this method repeatedly; it returns None until the loop has answered.

        Raises:
            SwitchRejected: If the request cannot be fulfilled. Active controllets do not change,
                except those that the message names.
            LoopTimeout: If the loop did not answer in time. The message states whether the switch
                may still happen.
        """
        shared_state = self._shared
        try:
            with shared_state.connection.lock:
                result = self._poll()
        except (SwitchRejected, LoopTimeout) as error:
            shared_state.counts.rejected["switch"] += 1
            self._close()
            if self._stopped:
                raise type(error)(f"{error}; {self._stops_sentence()}") from None
            raise
        if result is not None:
            self._close()
        return result

    def is_over(self) -> bool:
        """Return True if this request is answered or too old, so that another may be sent.

        A request other than a stop is withdrawn if it is too old: ``ABANDON_TIME`` after its
        deadline.
        """
        if self._box.words[SharedFlag.SWITCH_ACK] == self._number and not self._brakes:
            return True
        if time.monotonic() < self.deadline + ABANDON_TIME:
            return False
        if not self._is_stop:
            self.yield_to_stop()
        return True

    def yield_to_stop(self) -> None:
        """Withdraw this request, because a stop replaces it."""
        withdrawn = bool(self._number) and self._withdraw()
        if withdrawn or self._brakes:
            self._overtaken = True
        self.keep_answer()
        if self._brakes and self._answer and self._answer[0] is SwitchStatus.DONE:
            self._stopped += self._plan.deactivated

    def keep_answer(self) -> None:
        """Store the answer of the loop before the next answer overwrites it."""
        words = self._box.words
        if self._number and self._answer is None and words[SharedFlag.SWITCH_ACK] == self._number:
            self._answer = (
                SwitchStatus(words[SharedFlag.SWITCH_STATUS]),
                words[SharedFlag.SWITCH_NS],
            )

    def _close(self) -> None:
        if self._shared.pending is self:
            self._shared.pending = None

    def _poll(self) -> SwitchResult | None:
        if self._overtaken:
            self._refuse_after_stop()
        if not self._number:
            return self._send_unless_busy()
        self.keep_answer()
        if self._answer is None:
            if time.monotonic() > self.deadline:
                self._withdraw_after_timeout()
            return None
        status, answered_ns = self._answer
        if status is SwitchStatus.DONE and self._brakes:
            self._stopped += self._plan.deactivated
            self._number = self._tries = 0
            self._answer = None
            return self._send_unless_busy()
        if status is SwitchStatus.DONE:
            handed_over, notices = map(self._event_texts, (Event.HANDED_OVER, Event.NOTICE))
            delay = (answered_ns - self._requested_ns) * 1e-9
            return self._result(delay, tuple(handed_over), tuple(notices))
        if status is SwitchStatus.FAILED:
            reasons = self._event_texts(Event.SWITCH_FAILED)
            raise SwitchRejected("; ".join(reasons) or "activation failed")
        # A fault has changed the active controllets since the request. It is planned again.
        self._number = 0
        if self._tries == _MAX_TRIES:
            raise SwitchRejected(
                "faults keep changing the active set. Check the events of the loop"
            )
        return self._send_unless_busy()

    def _send_unless_busy(self) -> SwitchResult | None:
        shared_state, box = self._shared, self._box
        if self._stops != shared_state.stop_count and not self._is_stop:
            self._refuse_after_stop()
        before = shared_state.pending
        # This request overwrites the answer to the previous one, which its client may not have
        # polled yet.
        if before is not None and before.is_over():
            before.keep_answer()
            before = shared_state.pending = None
        if before is not None and before is not self:
            if not self._is_stop:
                if time.monotonic() > self.deadline:
                    raise LoopTimeout(
                        f"another switch was not answered within {self._timeout:g} s; this one "
                        "was not sent"
                    )
                return None
            before.yield_to_stop()
        elif not self._is_stop and box.switch.taken < shared_state.stop_number:
            raise SwitchRejected(
                "switch: a stop waits until the loop runs again, and other switches are refused "
                "until then. Repeat the request later"
            )
        epoch = box.words[SharedFlag.EPOCH]
        flags = [bool(flag) for flag in box.active]
        if self._is_stop:
            self._deactivate = tuple(
                spec.name
                for spec, flag in zip(shared_state.specs, flags)
                if flag and not spec.is_hold
            )
        plan = plan_switch(
            shared_state.specs,
            flags,
            self._activate,
            self._deactivate,
            self._strictness,
            shared_state.unready(),
        )
        self._brakes = False
        if self._strictness is Strictness.FORCE_AUTO:
            # The loop checks the speed against MAX_REST_SPEED again, so an arm that has braked
            # must be well below it.
            bound = 0.5 * MAX_REST_SPEED if self._rested else MAX_REST_SPEED
            if moving := moving_arms(
                shared_state.specs, plan, shared_state.state, bound, self._is_idle_long_enough
            ):
                if time.monotonic() > self.deadline:
                    raise SwitchRejected(not_at_rest(moving, self._timeout, bound))
                self._rested.update(dict.fromkeys(one.arm for one in moving))
                self._brakes, shared_state.pending = True, self
                plan = only_stops(plan, flags)
                if not plan.deactivated:  # All these arms hold already, but still move.
                    return None
        self._plan = plan
        is_certain = not self._is_stop or (before is None and not shared_state.stall_reason())
        if is_certain and not plan.activated and not plan.deactivated:
            return self._result(0.0)
        now, reason = time.monotonic(), self._reason()
        shared_state.deactivations.update(dict.fromkeys(plan.deactivated, (now, reason)))
        self._tries += 1
        self._events = box.words[SharedFlag.EVENTS]
        head = [ANY_EPOCH if self._is_stop else epoch, self._requested_ns]
        self._answer = None
        record = [np.array([*head, *plan.flags], dtype=np.float64), reason_record(reason)]
        self._number = box.switch.write(np.concatenate(record))
        box.notify()
        shared_state.pending = self
        if self._is_stop:
            shared_state.stop_number = self._number
        return None

    def _is_idle_long_enough(self, arm: str, is_no_motion_commanded: bool) -> bool:
        if not is_no_motion_commanded:
            self._still_since.pop(arm, None)
            return False
        now = time.monotonic()
        return now - self._still_since.setdefault(arm, now) >= _SETTLED_TIME

    def _reason(self) -> str:
        requested = ", ".join(self._activate)
        if self._is_stop:
            description = "a stop of all arms"
        else:
            description = self._reason_text or (
                f"a switch to {requested}" if requested else "a switch that requested it"
            )
        if self._brakes:
            description = f"{description}, for which arms come to rest first"
        return f"{description}, requested by {self._by or OWNER_DESCRIPTION}"

    def _refuse_after_stop(self) -> NoReturn:
        changed = "" if self._stopped else "; nothing has changed"
        raise SwitchRejected(f"switch: a stop came first{changed}. Request the switch again")

    def _event_texts(self, event: Event) -> list[str]:
        plan = self._plan
        arms = {
            arm
            for spec in self._shared.specs
            if spec.name in plan.activated or spec.name in plan.deactivated
            for arm in spec.arms
        }
        mine = {spec.name for spec in self._shared.specs if arms.intersection(spec.arms)}
        events = self._box.events_since(self._events)[1]
        return [e.text for e in events if e.event is event and e.controllet in mine]

    def _result(
        self, delay: float, handed_over: tuple[str, ...] = (), notices: tuple[str, ...] = ()
    ) -> SwitchResult:
        plan = self._plan
        ended = [*self._stopped, *plan.deactivated]
        return SwitchResult(
            tuple(plan.activated),
            tuple(name for name in ended if name not in plan.activated),
            tuple(plan.skipped),
            tuple(plan.missing),
            delay,
            handed_over,
            notices,
            tuple(self._rested),
        )

    def _stops_sentence(self) -> str:
        return (
            f"to bring {' and '.join(self._rested)} to rest, {', '.join(self._stopped)} "
            f"{'was' if len(self._stopped) == 1 else 'were'} deactivated; their arms hold"
        )

    def _withdraw_after_timeout(self) -> None:
        self._shared.connection.check()
        stall_reason = self._shared.stall_reason()
        reason = f" ({stall_reason})" if stall_reason else ""
        description = f"the loop did not answer the switch within {self._timeout:g} s{reason}"
        if self._is_stop:
            raise LoopTimeout(
                f"the loop did not answer the stop within {self._timeout:g} s{reason}; the "
                "request remains: every arm holds as soon as the loop runs again"
            )
        if self._withdraw():
            raise LoopTimeout(f"{description}; it is withdrawn and will not happen")
        if self._box.words[SharedFlag.SWITCH_ACK] != self._number:
            raise LoopTimeout(
                f"{description}; it has been started and is pending: check which controllets are "
                "active"
            )

    def _withdraw(self) -> bool:
        return self._shared.connection.withdraw(self._box.switch, self._number, "switch")


@dataclass
class SharedSwitchState:
    """State shared by all switch requests of a cell.

    Attributes:
        specs: Specifications of all controllet instances.
        connection: Connection to the loop, whose lock protects this state.
        counts: Counters of rejected and cancelled requests.
        lifecycle: Lifecycle state of inactive controllets, by name.
        inactive_arms: Names of the arms that refuse all controllets except ``hold``.
        state: Function that returns the newest state of an arm.
        stall_reason: Function that returns the reason why the loop does not run; empty if it runs.
        pending: Sent request that the loop has not answered; None without one.
        stop_number: Sequence number of the newest stop sent to the loop.
        stop_count: Number of requested stops. A stop makes all earlier requests fail.
        deactivations: Time [s] (``time.monotonic``) and reason of the last switch that deactivated
            a controllet, by controllet.
    """

    specs: Sequence[InstanceSpec]
    connection: Connection
    counts: Counts
    lifecycle: Mapping[str, str]
    inactive_arms: Collection[str]
    state: Callable[[str], ArmSnapshot]
    stall_reason: Callable[[], str]
    pending: PendingSwitch | None = None
    stop_number: int = 0
    stop_count: int = 0
    deactivations: dict[str, tuple[float, str]] = field(default_factory=dict)

    def unready(self) -> dict[str, str]:
        """Return the reasons why controllets cannot be activated at present, by controllet."""
        reasons: dict[str, str] = {}
        for spec in self.specs:
            resting = self.inactive_arms and [
                arm for arm in spec.config.arms if arm in self.inactive_arms
            ]
            if self.lifecycle[spec.name] != "inactive":
                reasons[spec.name] = "is not loaded and configured"
            elif resting and not spec.is_hold:
                reasons[spec.name] = (
                    f"arm {' and '.join(resting)} is inactive. Set it active first"
                )
        return reasons
