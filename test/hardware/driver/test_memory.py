# SPDX-License-Identifier: Apache-2.0
"""State transitions of a driver, without a process."""

from __future__ import annotations

import pytest

from multipanda_py.hardware.driver.memory import DriverEvent, DriverState, next_state

pytestmark = pytest.mark.inline

State, Event = DriverState, DriverEvent


def after(state: DriverState, *events: DriverEvent) -> DriverState:
    for event in events:
        state = next_state(state, event)
    return state


def test_connected_driver_works_and_failed_driver_is_faulted():
    assert after(State.ABSENT, Event.START) is State.CONNECTING
    assert after(State.CONNECTING, Event.CONNECT) is State.WORKING
    assert after(State.CONNECTING, Event.FAIL) is State.FAULTED


def test_heartbeat_after_silence_needs_no_recovery():
    assert after(State.WORKING, Event.FALL_SILENT, Event.BEAT) is State.WORKING


def test_fault_persists_over_silence_until_recovery():
    pause = (Event.FALL_SILENT, Event.BEAT)
    assert after(State.WORKING, Event.FAIL, *pause) is State.FAULTED
    assert after(State.WORKING, Event.FALL_SILENT, Event.FAIL, Event.BEAT) is State.FAULTED
    assert after(State.WORKING, Event.FAIL, *pause, Event.RECOVER) is State.WORKING


def test_recovery_does_not_mark_silent_or_starting_driver_working():
    for state in (State.ABSENT, State.CONNECTING, State.SILENT):
        assert after(state, Event.RECOVER) is state


@pytest.mark.parametrize("state", State)
def test_every_state_allows_start_and_failure(state):
    assert after(state, Event.START) is State.CONNECTING
    assert after(state, Event.FAIL) is State.FAULTED
