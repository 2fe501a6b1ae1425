# SPDX-License-Identifier: Apache-2.0
"""Temporarily inhibited streams, and warnings that are logged once."""

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


def test_inhibited_stream_resumes_after_new_value_or_pause(time):
    inhibited = TargetInhibit(time)
    assert not inhibited
    inhibited.inhibit("left", "joint", "busy")
    assert inhibited
    assert inhibited.refusal("left", "joint", OLD) == "busy"
    assert inhibited.refusal("right", "joint", OLD) == inhibited.refusal("left", "pose", OLD) == ""
    inhibited.release("left", "joint")
    for _ in range(100):
        time.now += 0.9 * STREAM_TIMEOUT
        assert "repeats" in inhibited.refusal("left", "joint", OLD)
    assert inhibited.refusal("left", "joint", NEW) == inhibited.refusal("left", "joint", OLD) == ""
    assert not inhibited
    inhibited.inhibit("left", "joint", "busy")
    inhibited.refusal("left", "joint", OLD)
    inhibited.release("left", "joint")
    time.now += 1.1 * STREAM_TIMEOUT
    assert inhibited.refusal("left", "joint", OLD) == ""


def test_release_without_messages_inhibits_nothing(time):
    inhibited = TargetInhibit(time)
    inhibited.inhibit("left", "joint", "busy")
    inhibited.release("left", "joint")
    assert inhibited.refusal("left", "joint", OLD) == ""


def test_texts_differing_in_numbers_are_logged_once_until_silence(time):
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


def test_ever_new_texts_do_not_fill_memory(time):
    reported = ThrottledLog(time)
    for number in range(3 * MAX_TEXTS):
        reported.new_text("frame " + "x" * number)
    assert len(reported.known) <= MAX_TEXTS + 1
