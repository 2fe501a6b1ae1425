# SPDX-License-Identifier: Apache-2.0
"""Timeouts of callbacks and self-check responses, with a simulated clock."""

from __future__ import annotations

import pytest

from multipanda_py.ros.node.self_check import (
    FIRST_RESPONSE_TIMEOUT,
    RESPONSE_TIMEOUT,
    TIMEOUT,
    Responsiveness,
)

pytestmark = pytest.mark.inline

STEP = 0.1


@pytest.fixture
def state():
    """State of a node with an answered self-check, updated at 0 s."""
    state = Responsiveness()
    state.served()
    state.update(0.0)
    state.answered()
    return state


def pass_time(state, seconds, start=0.0, callbacks=True, answers=False):
    """Update for a duration; return the time of the last update [s]."""
    for step in range(1, round(seconds / STEP) + 1):
        if callbacks:
            state.served()
        if answers:
            state.answered()
        state.update(start + step * STEP)
    return start + seconds


def test_node_with_answered_self_check_is_responsive(state):
    pass_time(state, 10.0, answers=True)
    assert (state.callback_age, state.is_blocked, state.is_unanswered) == (0.0, False, False)


def test_blocked_callbacks_are_not_deaf_participant(state):
    now = pass_time(state, TIMEOUT + 1.0, callbacks=False)
    assert state.is_blocked
    assert state.callback_age == pytest.approx(TIMEOUT + 1.0)
    assert not state.is_unanswered
    pass_time(state, STEP, now)
    assert not state.is_blocked


def test_silent_participant_is_deaf_then_lost(state):
    now = pass_time(state, TIMEOUT + STEP)
    assert (state.is_unanswered, state.is_lost) == (True, False)
    pass_time(state, RESPONSE_TIMEOUT - TIMEOUT, now)
    assert state.is_lost
    state.answered()
    assert (state.is_unanswered, state.is_lost) == (False, False)


def test_stopped_process_is_not_reported(state):
    state.update(60.0)
    assert not state.is_blocked
    assert not state.is_unanswered


def test_no_report_without_discovery():
    state = Responsiveness()
    pass_time(state, 10.0 * FIRST_RESPONSE_TIMEOUT)
    assert not state.is_unanswered


def test_no_report_while_node_is_paused(state):
    state.pause()
    pass_time(state, 10.0 * FIRST_RESPONSE_TIMEOUT, callbacks=False)
    assert not state.is_blocked
    assert not state.is_unanswered


def test_new_participant_is_deaf_until_first_response(state):
    now = pass_time(state, RESPONSE_TIMEOUT + 1.0)
    state.pause()
    state.renew()
    assert (state.is_unanswered, state.is_lost) == (True, False)
    now = pass_time(state, FIRST_RESPONSE_TIMEOUT - TIMEOUT - 1.0, now)
    assert (state.is_unanswered, state.is_lost) == (True, False)
    pass_time(state, 1.0, now)
    assert state.is_lost
    state.answered()
    assert not state.is_unanswered


def test_unanswered_first_participant_was_not_distinguished():
    state = Responsiveness()
    now = pass_time(state, FIRST_RESPONSE_TIMEOUT - STEP)
    assert (state.is_undiscovered, state.has_answered) == (False, False)
    now = pass_time(state, 3 * STEP, now)
    assert (state.is_undiscovered, state.is_unanswered, state.is_lost) == (True, False, False)
    state.answered()
    pass_time(state, FIRST_RESPONSE_TIMEOUT, now, answers=True)
    assert state.has_answered
    assert state.discovery_time == pytest.approx(FIRST_RESPONSE_TIMEOUT + 2 * STEP, abs=STEP)
