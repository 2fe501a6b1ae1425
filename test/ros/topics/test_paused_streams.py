# SPDX-License-Identifier: Apache-2.0
"""Streams that are not taken for a while, and complaints that are said once."""

from __future__ import annotations

import pytest

from multipanda_py.ros.node.guard import MAX_TEXTS, REPEAT_PERIOD, ThrottledLog
from multipanda_py.ros.topics.targets import STREAM_TIMEOUT, TargetInhibit

pytestmark = pytest.mark.inline

OLD, NEW = ([0.1, 0.2], None), ([0.1, 0.3], None)


class Time:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def time():
    return Time()


def test_a_stream_is_taken_again_when_it_says_something_else_or_pauses(time):
    held = TargetInhibit(time)
    assert not held
    held.inhibit("left", "joint", "busy")
    assert held
    assert held.refusal("left", "joint", OLD) == "busy"
    assert held.refusal("right", "joint", OLD) == held.refusal("left", "pose", OLD) == ""
    held.release("left", "joint")
    for _ in range(100):
        time.now += 0.9 * STREAM_TIMEOUT
        assert "repeats" in held.refusal("left", "joint", OLD)
    assert held.refusal("left", "joint", NEW) == held.refusal("left", "joint", OLD) == ""
    assert not held
    held.inhibit("left", "joint", "busy")
    held.refusal("left", "joint", OLD)
    held.release("left", "joint")
    time.now += 1.1 * STREAM_TIMEOUT
    assert held.refusal("left", "joint", OLD) == ""


def test_nothing_came_meanwhile_so_nothing_is_held_off(time):
    held = TargetInhibit(time)
    held.inhibit("left", "joint", "busy")
    held.release("left", "joint")
    assert held.refusal("left", "joint", OLD) == ""


def test_what_differs_in_numbers_is_said_once_until_it_has_been_silent(time):
    reported = ThrottledLog(time)
    assert reported.new_text("0.31 m away") == "0.31 m away"
    for _ in range(5):
        time.now += 0.9 * REPEAT_PERIOD
        assert reported.new_text("-3.2e-05 m away") == ""
    assert reported.new_text("unknown frame") == "unknown frame"
    time.now += 1.1 * REPEAT_PERIOD
    assert (
        reported.new_text("0.4 m away")
        == "0.4 m away (and 5 repetitions since the previous message)"
    )


def test_a_sender_of_ever_new_names_fills_no_memory(time):
    reported = ThrottledLog(time)
    for number in range(3 * MAX_TEXTS):
        reported.new_text("frame " + "x" * number)
    assert len(reported.known) <= MAX_TEXTS + 1
