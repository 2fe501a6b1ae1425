# SPDX-License-Identifier: Apache-2.0
"""What the loop knows of a driver, and what changes it."""

from __future__ import annotations

from enum import Enum, auto


class DriverState(Enum):
    """Where a driver stands. Each fault is reported when its state is entered, and once."""

    ABSENT = auto()
    """None was started."""
    CONNECTING = auto()
    """It has been started, and has not said yet whether it has its robot."""
    WORKING = auto()
    """It has its robot, and beats."""
    SILENT = auto()
    """It does not beat; it may do so again."""
    FAULTED = auto()
    """It has ended, or it or its robot has a fault; nothing goes on before a recovery."""


class DriverEvent(Enum):
    """What may happen to a driver."""

    START = auto()
    CONNECT = auto()
    FAIL = auto()
    """It cannot have its robot, has ended, or has said that there is a fault."""
    FALL_SILENT = auto()
    BEAT = auto()
    RECOVER = auto()


_TRANSITIONS = {
    (DriverState.CONNECTING, DriverEvent.CONNECT): DriverState.WORKING,
    (DriverState.WORKING, DriverEvent.FALL_SILENT): DriverState.SILENT,
    (DriverState.SILENT, DriverEvent.BEAT): DriverState.WORKING,
    (DriverState.FAULTED, DriverEvent.RECOVER): DriverState.WORKING,
}


def next_state(state: DriverState, event: DriverEvent) -> DriverState:
    """Return where a driver stands after an event.

    A start and a failure count in every state; what is not in the table changes nothing: a
    faulted driver that falls silent has its fault already.
    """
    if event is DriverEvent.START:
        return DriverState.CONNECTING
    if event is DriverEvent.FAIL:
        return DriverState.FAULTED
    return _TRANSITIONS.get((state, event), state)
