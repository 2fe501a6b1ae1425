# SPDX-License-Identifier: Apache-2.0
"""Ages of callbacks and answers, by a clock of the test."""

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
    """State of a node that has answered itself, after a look at 0 s."""
    state = Responsiveness()
    state.served()
    state.update(0.0)
    state.answered()
    return state


def pass_time(state, seconds, start=0.0, callbacks=True, answers=False):
    """Look for some seconds; return the time of the last look [s]."""
    for step in range(1, round(seconds / STEP) + 1):
        if callbacks:
            state.served()
        if answers:
            state.answered()
        state.update(start + step * STEP)
    return start + seconds


def test_a_node_that_answers_itself_is_responsive(state):
    pass_time(state, 10.0, answers=True)
    assert (state.standing, state.is_standing, state.is_deaf) == (0.0, False, False)


def test_callbacks_that_stand_are_no_deaf_participant(state):
    now = pass_time(state, TIMEOUT + 1.0, callbacks=False)
    assert state.is_standing
    assert state.standing == pytest.approx(TIMEOUT + 1.0)
    assert not state.is_deaf
    pass_time(state, STEP, now)
    assert not state.is_standing


def test_a_silent_participant_is_deaf_first_and_lost_later(state):
    now = pass_time(state, TIMEOUT + STEP)
    assert (state.is_deaf, state.is_lost) == (True, False)
    pass_time(state, RESPONSE_TIMEOUT - TIMEOUT, now)
    assert state.is_lost
    state.answered()
    assert (state.is_deaf, state.is_lost) == (False, False)


def test_a_process_that_was_stopped_is_not_blamed_for_it(state):
    state.update(60.0)
    assert not state.is_standing
    assert not state.is_deaf


def test_without_discovery_nothing_is_judged():
    state = Responsiveness()
    pass_time(state, 10.0 * FIRST_RESPONSE_TIMEOUT)
    assert not state.is_deaf


def test_nothing_is_expected_of_a_node_that_does_not_serve(state):
    state.pause()
    pass_time(state, 10.0 * FIRST_RESPONSE_TIMEOUT, callbacks=False)
    assert not state.is_standing
    assert not state.is_deaf


def test_a_new_participant_is_deaf_until_its_first_answer(state):
    now = pass_time(state, RESPONSE_TIMEOUT + 1.0)
    state.pause()
    state.renew()
    assert (state.is_deaf, state.is_lost) == (True, False)
    now = pass_time(state, FIRST_RESPONSE_TIMEOUT - TIMEOUT - 1.0, now)
    assert (state.is_deaf, state.is_lost) == (True, False)
    pass_time(state, 1.0, now)
    assert state.is_lost
    state.answered()
    assert not state.is_deaf


def test_a_first_participant_that_never_answered_was_not_told_from_one_that_did():
    state = Responsiveness()
    now = pass_time(state, FIRST_RESPONSE_TIMEOUT - STEP)
    assert (state.is_unheard, state.has_answered) == (False, False)
    now = pass_time(state, 3 * STEP, now)
    assert (state.is_unheard, state.is_deaf, state.is_lost) == (True, False, False)
    state.answered()
    pass_time(state, FIRST_RESPONSE_TIMEOUT, now, answers=True)
    assert state.has_answered
    assert state.unheard == pytest.approx(FIRST_RESPONSE_TIMEOUT + 2 * STEP, abs=STEP)
