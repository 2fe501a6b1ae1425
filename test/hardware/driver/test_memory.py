# SPDX-License-Identifier: Apache-2.0
"""What a driver may go through, without one."""

from __future__ import annotations

import pytest

from multipanda_py.hardware.driver.memory import DriverEvent, DriverState, next_state

pytestmark = pytest.mark.inline

State, Event = DriverState, DriverEvent


def after(state: DriverState, *events: DriverEvent) -> DriverState:
    for event in events:
        state = next_state(state, event)
    return state


def test_a_driver_that_connects_works_and_one_that_cannot_is_faulted():
    assert after(State.ABSENT, Event.START) is State.CONNECTING
    assert after(State.CONNECTING, Event.CONNECT) is State.WORKING
    assert after(State.CONNECTING, Event.FAIL) is State.FAULTED


def test_a_driver_that_beats_again_works_without_a_recovery():
    assert after(State.WORKING, Event.FALL_SILENT, Event.BEAT) is State.WORKING


def test_a_fault_outlasts_a_silence_and_ends_with_a_recovery():
    pause = (Event.FALL_SILENT, Event.BEAT)
    assert after(State.WORKING, Event.FAIL, *pause) is State.FAULTED
    assert after(State.WORKING, Event.FALL_SILENT, Event.FAIL, Event.BEAT) is State.FAULTED
    assert after(State.WORKING, Event.FAIL, *pause, Event.RECOVER) is State.WORKING


def test_a_recovery_does_not_take_a_silent_or_starting_driver_for_a_working_one():
    for state in (State.ABSENT, State.CONNECTING, State.SILENT):
        assert after(state, Event.RECOVER) is state


@pytest.mark.parametrize("state", State)
def test_a_new_driver_may_be_started_and_anything_may_fail(state):
    assert after(state, Event.START) is State.CONNECTING
    assert after(state, Event.FAIL) is State.FAULTED
