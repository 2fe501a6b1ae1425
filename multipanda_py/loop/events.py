# SPDX-License-Identifier: Apache-2.0
"""Things the loop reports once, when they happen."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Event(IntEnum):
    """Kinds of event; those from ``NON_FINITE_TORQUE`` on latch a fault on the arm."""

    FORCE_NO_LONGER_MISSING = -8
    FORCE_MISSING = -7
    LOST = -6
    HOLDS = -5
    SWITCHED = -4
    TARE_REFUSED = -3
    TARED = -2
    HANDED_OVER = -1
    NONE = 0
    NOTICE = 1
    SWITCH_FAILED = 2
    TARGET_STALE = 3
    TARGET_INVALID = 4
    CLIENT_SILENT = 5
    CLIENT_GONE = 6
    RECOVERED = 7
    SETTINGS_APPLIED = 8
    SETTINGS_REFUSED = 9
    NON_FINITE_TORQUE = 10
    CONTROLLET_ERROR = 11
    POSITION_LIMIT = 12
    VELOCITY_LIMIT = 13
    NON_FINITE_STATE = 14
    BACKEND_ERROR = 15
    ARM_STOPPED = 16
    NON_FINITE_COMMAND = 17
    COMMAND_JUMP = 18

    @property
    def is_routine(self) -> bool:
        """Whether a request was carried out, and nothing is wrong."""
        return self in (
            Event.SWITCHED, Event.HANDED_OVER, Event.RECOVERED, Event.SETTINGS_APPLIED,
            Event.TARED, Event.FORCE_NO_LONGER_MISSING,
        )  # fmt: skip

    @property
    def ends_laws(self) -> bool:
        """Whether arms may have been given to another controllet, by a request or without one."""
        return self.is_fault or self in (
            Event.SWITCHED, Event.HOLDS, Event.CLIENT_SILENT, Event.CLIENT_GONE
        )  # fmt: skip

    @property
    def permits_hold(self) -> bool:
        """Whether hold can still produce a torque after this fault."""
        return self in (Event.POSITION_LIMIT, Event.VELOCITY_LIMIT, Event.ARM_STOPPED)

    @property
    def takes_torque(self) -> bool:
        """Whether an arm with this fault may not do what it is told."""
        return self in (Event.NON_FINITE_STATE, Event.BACKEND_ERROR, Event.ARM_STOPPED)

    @property
    def is_fault(self) -> bool:
        """Whether the arm stays faulted until it is recovered."""
        return self >= Event.NON_FINITE_TORQUE


@dataclass(frozen=True)
class LoopEvent:
    """One report of the loop.

    Attributes:
        event: What kind.
        time_ns: When, CLOCK_MONOTONIC (cycle time in inline mode) [ns].
        arm: Name of the arm, or an empty string.
        controllet: Name of the instance, or an empty string.
        text: What happened, in a sentence.
    """

    event: Event
    time_ns: int
    arm: str
    controllet: str
    text: str

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.arm, self.controllet) if part)
        return f"{self.event.name.lower()}{f' ({where})' if where else ''}: {self.text}"
